"""Write a small instruction set, as chats in JSON lines, a test set and a few chats that say what is wanted.

    python examples/make_instructions.py chats.jsonl

makes some thousand requests to a bank's assistant with an answer each, some of them twice in other words.
chats-test.jsonl holds requests that must not be trained on, copies of which are in chats.jsonl, and
chats-wanted.jsonl some requests about lost cards and fraud: what the assistant is to be good at.
chats.truth.csv has the intent of each line of chats.jsonl, and what is wrong with it.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from make_texts import made

WANTED = ("lost card", "fraud")


def chat(request, intent):
    """Return a request and its answer as a chat."""
    answer = f"I can help with that. Here is what we do about {intent}: ..."
    turns = [{"role": "user", "content": request}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": turns}) + "\n"


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("file", type=Path)
    file = ask.parse_args().file
    rng = np.random.default_rng(0)
    texts, intents, none = made()
    texts, intents = texts + none, intents + ["small talk"] * len(none)
    order = rng.permutation(len(texts)).tolist()
    wanted = [row for row in order if intents[row] in WANTED][:30]
    order = [row for row in order if row not in wanted]
    test, pool = order[:60], order[60:]
    rows = [(texts[row], intents[row], "") for row in pool]
    rows += [(f"{texts[row].capitalize()}?", intents[row], "copy of another line") for row in pool[:200]]
    rows += [(f"please {texts[row]}", intents[row], "copy of the test set") for row in test]
    rows = [rows[row] for row in rng.permutation(len(rows))]
    file.write_text("".join(chat(text, intent) for text, intent, _ in rows), encoding="utf-8")
    for name, chosen in (("test", test), ("wanted", wanted)):
        beside = file.with_name(f"{file.stem}-{name}.jsonl")
        beside.write_text("".join(chat(texts[row], intents[row]) for row in chosen), encoding="utf-8")
    with file.with_suffix(".truth.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([["row", "intent", "wrong"]])
        csv.writer(out).writerows([row, intent, wrong] for row, (_, intent, wrong) in enumerate(rows))
    print(
        f"{len(rows):,} chats in {file}, {len(test)} in the test set, {len(wanted)} that say what is wanted"
    )


if __name__ == "__main__":
    main()
