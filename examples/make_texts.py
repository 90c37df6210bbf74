"""Write a table of requests to a bank's assistant, some with a wrong intent, some that belong to none.

    python examples/make_texts.py requests.csv

makes some thousand requests of ten intents from phrases, gives one in five another intent, and mixes in
requests that are of no intent at all (open-set rows), each with some intent as its label.
requests.truth.csv says which. With the real requests of CLINC150 (columns split, text, intent):

    python examples/make_texts.py requests.csv --clinc clinc150.csv
"""

import argparse
import csv
import itertools
from pathlib import Path

import numpy as np

from gmmatch import corrupt

# Every combination of a beginning, a middle and an end is a request.
INTENTS = {
    "balance": (
        ["what is", "tell me", "show", "how much is", "check"],
        ["the balance of my", "the money left in my", "what remains in my"],
        [
            "savings account",
            "checking account",
            "main account",
            "joint account",
            "student account",
            "account",
        ],
    ),
    "transfer": (
        ["please transfer", "send", "move", "wire", "i want to transfer"],
        ["fifty dollars", "two hundred euros", "some money", "half of my savings"],
        ["to my brother", "to my savings account", "to anna", "to the landlord", "between my accounts"],
    ),
    "lost card": (
        ["i lost", "i cannot find", "someone stole", "i misplaced", "i left behind"],
        ["my credit card", "my debit card", "my bank card", "the card you sent"],
        [
            "yesterday",
            "on the train",
            "at a restaurant",
            "and need it blocked",
            "please block it",
            "on holiday",
        ],
    ),
    "exchange rate": (
        [
            "what is the exchange rate",
            "how many dollars do i get",
            "convert",
            "what does it cost to change money",
        ],
        ["from euros", "from pounds", "from yen", "from swiss francs"],
        ["to dollars", "into rupees", "today", "to pesos", "at your bank", "this week"],
    ),
    "mortgage": (
        ["what are the rates", "how do i apply", "can i get an offer", "who do i talk to"],
        ["for a mortgage", "for a home loan", "for a loan to buy a house", "for refinancing my house"],
        ["over twenty years", "with little income", "this year", "as a couple", "for a flat", "online"],
    ),
    "opening hours": (
        ["when does", "at what time does", "until when on fridays does", "how late does"],
        ["the branch in town", "your nearest branch", "the bank downtown", "the office on main street"],
        ["open", "close", "open tomorrow", "close on saturday", "open on holidays"],
    ),
    "password": (
        ["i forgot", "how do i reset", "i want to change", "please unlock", "i typed a wrong"],
        ["my password", "my pin", "the login of my app", "my online banking password"],
        ["and cannot log in", "on my phone", "please help", "for the website", "again"],
    ),
    "fraud": (
        ["i see", "there is", "why is there", "i want to report"],
        [
            "a charge i did not make",
            "a suspicious payment",
            "a purchase nobody here made",
            "a strange withdrawal",
        ],
        ["on my statement", "from last night", "in another country", "on my card", "of nine hundred dollars"],
    ),
    "statement": (
        ["send me", "where do i download", "i need", "please print", "email me"],
        [
            "my bank statement",
            "the statements",
            "a list of all transactions",
            "a document with my transactions",
        ],
        ["of march", "of last year", "for my taxes", "as a pdf", "of the last three months"],
    ),
    "cash machine": (
        ["where is", "find", "is there", "show me the way to"],
        ["the next cash machine", "an atm without fees", "a cash dispenser", "an atm of yours"],
        ["near the station", "around here", "at the airport", "in this street", "that takes deposits"],
    ),
}
NO_INTENT = (
    ["tell me about", "what do you think of", "please explain", "sing a song about", "who invented"],
    ["the weather", "football", "dinosaurs", "pasta sauce", "black holes", "my cat", "the french revolution"],
    ["in winter", "to my children", "in one word", "for breakfast", "on mars"],
)


def made():
    """Return requests of the ten intents, their intents, and requests of none."""
    pairs = [
        (" ".join(words), name) for name, parts in INTENTS.items() for words in itertools.product(*parts)
    ]
    texts, intents = zip(*pairs, strict=True)
    return list(texts), list(intents), [" ".join(words) for words in itertools.product(*NO_INTENT)]


def clinc(file):
    """Return CLINC150's training requests, their intents, and requests of none."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = [
            row
            for row in csv.DictReader(lines)
            if row["split"] in ("train", "oos_train", "oos_val", "oos_test")
        ]
    known = [row for row in rows if row["split"] == "train"]
    none = [row["text"] for row in rows if row["split"] != "train"]
    return [row["text"] for row in known], [row["intent"] for row in known], none


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("file", type=Path)
    ask.add_argument("--clinc", type=Path, help="clinc150.csv")
    asked = ask.parse_args()
    texts, intents, none = clinc(asked.clinc) if asked.clinc else made()
    rng = np.random.default_rng(0)
    given, wrong = corrupt.corrupt_labels(np.array(intents), share=0.2, rng=0)
    strange = rng.choice(sorted(set(intents)), len(none))
    rows = [*zip(texts, given, intents, wrong.astype(int), strict=True)]
    rows += [(text, intent, "none", 1) for text, intent in zip(none, strange, strict=True)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    with asked.file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([["text", "intent"], *([text, intent] for text, intent, *_ in rows)])
    truth = asked.file.with_suffix(".truth.csv")
    with truth.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([["text", "intent", "truth", "wrong"], *rows])
    bad = f"{wrong.sum():,} with a wrong intent, {len(none):,} of no intent"
    print(f"{len(rows):,} requests in {asked.file}: {bad}")


if __name__ == "__main__":
    main()
