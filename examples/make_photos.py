"""Write a folder of photos of which some are wrong: in the wrong folder, or damaged.

    python examples/make_photos.py photos

makes photos/zero/00000.png and so on from the 1,797 handwritten digits that come with scikit-learn. One
in five is put into another digit's folder, and one in ten is damaged. photos.truth.csv says which. With
CIFAR-10 as `cifar10.npz` (see docs/experiments.md) real photos are used:

    python examples/make_photos.py photos --cifar cifar10.npz --rows 3000
"""

import argparse
import csv
import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from gmmatch import corrupt

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def digits():
    """Return the handwritten digits as images of 16 by 16 pixels, their classes and the classes' names."""
    found = load_digits()
    large = np.kron(found.images * 15.9, np.ones((2, 2)))
    return large.astype(np.uint8), found.target, DIGITS


def cifar(file, rows):
    """Return the first photos of CIFAR-10, their classes and the classes' names."""
    with np.load(file) as found:
        jpeg, ends = found["train_jpeg"], found["train_offsets"]
        images = [Image.open(io.BytesIO(jpeg[ends[i] : ends[i + 1]].tobytes())) for i in range(rows)]
        names = [str(name) for name in found["class_names"]]
        return np.stack([np.asarray(image) for image in images]), found["train_labels"][:rows], names


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", type=Path)
    ask.add_argument("--cifar", type=Path, help="cifar10.npz")
    ask.add_argument("--rows", type=int, default=3000, help="how many photos of CIFAR-10")
    asked = ask.parse_args()
    images, truth, names = cifar(asked.cifar, asked.rows) if asked.cifar else digits()
    given, moved = corrupt.corrupt_labels(truth, share=0.2, rng=0)
    images, damaged = corrupt.corrupt_images(images, share=0.1, severity=4, rng=1)
    rows = []
    for i, image in enumerate(images):
        file = asked.folder / names[given[i]] / f"{i:05d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
        id_ = file.relative_to(asked.folder).as_posix()
        rows.append([id_, names[given[i]], names[truth[i]], int(moved[i]), int(damaged[i])])
    with asked.folder.with_name(f"{asked.folder.name}.truth.csv").open("w", newline="") as out:
        csv.writer(out).writerows([["id", "label", "truth", "moved", "damaged"], *sorted(rows)])
    wrong = f"{moved.sum():,} in a wrong folder, {damaged.sum():,} damaged"
    print(f"{len(images):,} photos in {asked.folder}: {wrong}")


if __name__ == "__main__":
    main()
