"""Choose instructions to fine-tune on: from a .jsonl with copies and nonsense, keep a tenth, without labels.

Copies are found. Nonsense is not, where there is so much of it that it is a group of its own: without labels
nobody says which groups belong. Look at what was kept.

python examples/finetuning_texts.py
"""

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np

import gmmatch

VERBS = ["Summarise", "Translate into French", "Explain to a child", "Find the errors in", "Rewrite politely"]
THINGS = ["a letter", "this recipe", "a poem", "the contract", "a news article", "my essay", "the manual"]
MORE = ["", "in three sentences", "about cooking", "about football", "from last week", "for my boss"]


def main():
    rng = np.random.default_rng(0)
    good = [" ".join(filter(None, words)) for words in itertools.product(VERBS, THINGS, MORE)]
    copies = ["Summarise a letter please"] * 60
    nonsense = ["".join(rng.choice(list("abcdefghij "), 30)) for _ in range(40)]
    prompts = rng.permutation([*good, *copies, *nonsense])
    folder = Path(tempfile.mkdtemp())
    file = folder / "instructions.jsonl"
    lines = [json.dumps({"prompt": str(prompt), "answer": "..."}) for prompt in prompts]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    kept = gmmatch.select(file, keep="10%", text="prompt", encoder="wordllama")
    chosen = kept.apply(lines)
    (folder / "kept.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    texts = [json.loads(line)["prompt"] for line in chosen]
    print(f"kept {len(texts)} of {len(lines)} instructions, {len(set(texts))} of them different")
    copied, senseless = (sum(text in bad for text in texts) for bad in (copies, nonsense))
    print(f"of the copied line: {copied}, nonsense: {senseless}")
    print(*texts[:5], sep="\n")


if __name__ == "__main__":
    main()
