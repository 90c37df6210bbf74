"""Write many embeddings as shards of .npy files, with labels of which some are wrong.

    python examples/make_embeddings.py shards --rows 10000000

makes ten million rows of 64 numbers (2.6 GB in 16 shards) around 100 topics, one row in five with
another topic's label, and one in fifty far away from everything. One shard at a time is held in memory.
"""

import argparse
from pathlib import Path

import numpy as np

FEATURES, TOPICS, SHARDS = 64, 100, 16


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", type=Path)
    ask.add_argument("--rows", type=int, default=10_000_000)
    asked = ask.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    middles = np.random.default_rng(0).normal(scale=0.6, size=(TOPICS, FEATURES)).astype(np.float32)
    given = []
    for shard, rows in enumerate(np.array_split(np.arange(asked.rows), SHARDS)):
        rng = np.random.default_rng([1, shard])
        topics = rng.integers(0, TOPICS, len(rows))
        values = middles[topics] + rng.standard_normal((len(rows), FEATURES), dtype=np.float32)
        values[rng.random(len(rows)) < 0.02] *= 20.0
        np.save(asked.folder / f"{shard:02d}.npy", values)
        given.append(np.where(rng.random(len(rows)) < 0.2, rng.integers(0, TOPICS, len(rows)), topics))
    labels = asked.folder.with_name(f"{asked.folder.name}.labels.npy")
    np.save(labels, np.concatenate(given).astype(np.int16))
    print(
        f"{asked.rows:,} rows of {FEATURES} numbers in {SHARDS} shards in {asked.folder}, labels in {labels}"
    )


if __name__ == "__main__":
    main()
