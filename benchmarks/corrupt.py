"""How long it takes to damage 50,000 CIFAR-size images: ``python -m benchmarks.corrupt``.

Prints JSON: seconds for five copies of the images (one per kind), for damaging 20 % of them with all
kinds, the ratio of the two, and the seconds of each kind on its own fifth.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from gmmatch.corrupt import IMAGE_KINDS, corrupt_images


def best_of(repeats: int, work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    shape = (options.images, options.side, options.side, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)

    copies = best_of(options.repeats, lambda: [images.copy() for _ in IMAGE_KINDS])
    damage = best_of(options.repeats, lambda: corrupt_images(images, options.share))
    count = round(options.images * options.share / len(IMAGE_KINDS))
    each = {
        kind: best_of(options.repeats, lambda kind=kind: corrupt_images(images[:count], 1.0, kind))
        for kind in IMAGE_KINDS
    }
    result = {
        "images": list(shape),
        "share": options.share,
        "seconds_copies": round(copies, 4),
        "seconds_damage": round(damage, 4),
        "damage_over_copies": round(damage / copies, 2),
        "limit": 10,
        "seconds_each_kind": {kind: round(seconds, 4) for kind, seconds in each.items()},
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
