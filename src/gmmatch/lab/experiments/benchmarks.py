"""The datasets of the experiments (benchmarks), read from a folder that the user names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...arrays import AnyArray, IntArray
from ...data.images import as_pixels
from ...errors import InvalidInput
from ...validation import check_choice
from ..training.images import read_images

FASHION_FOLDERS = ("fashion-mnist", "fashion-mnist-idx", "FashionMNIST/raw")
_SYSTEM_FASHION = Path("/usr/share/datasets/fashion-mnist")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A training and a test set."""

    name: str  # what it is called
    # uint8 images (rows, height, width[, channels]) or rows of numbers, and class numbers from 0.
    inputs: AnyArray
    labels: IntArray
    # The same, for the test set.
    test_inputs: AnyArray
    test_labels: IntArray
    # Further sets of labels of the training set, as people gave them.
    human: Mapping[str, IntArray] = field(default_factory=dict)
    recipe: str = "cpu"  # the recipe that networks are trained by on it, unless another is named

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(max(self.labels.max(), self.test_labels.max())) + 1

    def head(self, train_rows: int | None, test_rows: int | None) -> Benchmark:
        """Return the first rows of each set."""
        return replace(
            self,
            inputs=self.inputs[:train_rows],
            labels=self.labels[:train_rows],
            test_inputs=self.test_inputs[:test_rows],
            test_labels=self.test_labels[:test_rows],
            human={name: labels[:train_rows] for name, labels in self.human.items()},
        )


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from: how to read it, its recipe for training, and where to get it."""

    read: Callable[[Path | None], Benchmark]
    recipe: str
    # As published: rows of the training set, shape of an image, and classes.
    rows: int
    shape: tuple[int, int, int]
    classes: int
    advice: str


@dataclass(frozen=True)
class Named:
    """Opens datasets by their names, from a folder."""

    folder: Path | None = None

    def open(self, name: str, seed: int) -> Benchmark:
        """Return a dataset; its split is the official one, whatever the seed."""
        return open_benchmark(name, self.folder)


def open_benchmark(name: str, folder: Path | None = None) -> Benchmark:
    """Read a dataset from `folder`, or from the folder named by ``GMMATCH_DATA``.

    >>> digits = open_benchmark("digits")
    >>> digits.inputs.shape, digits.classes
    ((1347, 8, 8), 10)
    """
    check_choice(name, BENCHMARKS, "dataset")
    if folder is None and os.environ.get("GMMATCH_DATA"):
        folder = Path(os.environ["GMMATCH_DATA"])
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}; --data names the folder that holds the datasets")
    return replace(BENCHMARKS[name].read(folder), recipe=BENCHMARKS[name].recipe)


def _digits(_: Path | None) -> Benchmark:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    images = np.rint(bunch.images / 16 * 255).astype(np.uint8)
    train, test, labels, test_labels = train_test_split(
        images, bunch.target.astype(np.int64), test_size=0.25, random_state=0, stratify=bunch.target
    )
    return Benchmark("digits", train, labels, test, test_labels)


def _cifar10(folder: Path | None) -> Benchmark:
    if folder is not None and (folder / "cifar10.npz").is_file():
        return _cifar10_npz(folder / "cifar10.npz")
    names = ("cifar-10-batches-py", "cifar-10-batches-bin", "cifar10", ".")
    return _cifar("cifar10", folder, names, {"data_batch_1", "data_batch_1.bin"})


def _cifar10_npz(file: Path) -> Benchmark:
    images, labels = read_images(file)
    test_images, test_labels = read_images(file, split="test")
    if labels is None or test_labels is None:
        raise InvalidInput(f"{file} has no train_labels and test_labels")
    with np.load(file, allow_pickle=False) as arrays:
        human = {
            name.removeprefix("human_"): arrays[name].astype(np.int64)
            for name in arrays.files
            if name.startswith("human_")
        }
    return Benchmark(
        "cifar10", images, labels.astype(np.int64), test_images, test_labels.astype(np.int64), human
    )


def _cifar100(folder: Path | None) -> Benchmark:
    names = ("cifar-100-python", "cifar-100-binary", "cifar100", ".")
    return _cifar("cifar100", folder, names, {"train", "train.bin"})


def _cifar(name: str, folder: Path | None, places: tuple[str, ...], files: set[str]) -> Benchmark:
    for place in [] if folder is None else [folder / place for place in places]:
        if any((place / file).is_file() for file in files):
            _check_sums(place)
            return _dataset(name, place)
    raise _missing(name, folder)


def _fashion(folder: Path | None) -> Benchmark:
    places = [] if folder is None else [folder / place for place in (*FASHION_FOLDERS, ".")]
    for place in (*places, _SYSTEM_FASHION):
        if place.is_dir() and any(place.glob("train-images*idx3-ubyte*")):
            return _dataset("fashion-mnist", place)
    raise _missing("fashion-mnist", folder)


def _tiny_imagenet(folder: Path | None) -> Benchmark:
    """Read the folder of the official archive; its test set has no labels, so `val` takes its place."""
    root = None if folder is None else folder / "tiny-imagenet-200"
    if root is None or not (root / "wnids.txt").is_file():
        raise _missing("tiny-imagenet", folder)
    codes = {name: code for code, name in enumerate((root / "wnids.txt").read_text().split())}
    train = [
        (path, code)
        for name, code in codes.items()
        for path in sorted((root / "train" / name / "images").glob("*.JPEG"))
    ]
    notes = root / "val" / "val_annotations.txt"
    if not train or not notes.is_file():
        raise InvalidInput(f"{root} lacks train/*/images/*.JPEG or {notes.name}; unpack the archive again")
    lines = [line.split("\t") for line in notes.read_text().splitlines() if line.strip()]
    test = [(root / "val" / "images" / line[0], codes[line[1]]) for line in lines]
    return Benchmark("tiny-imagenet", *_decoded(train), *_decoded(test))


def _decoded(files: list[tuple[Path, int]]) -> tuple[npt.NDArray[np.uint8], IntArray]:
    images = np.stack([as_pixels(path, 64) for path, _ in files])
    return images, np.array([code for _, code in files], dtype=np.int64)


def _dataset(name: str, place: Path) -> Benchmark:
    return Benchmark(name, *_labelled(name, place, "train"), *_labelled(name, place, "test"))


def _labelled(name: str, place: Path, split: str) -> tuple[npt.NDArray[np.uint8], IntArray]:
    images, labels = read_images(place, split=split)
    if labels is None:
        raise InvalidInput(f"the files of {name} have no labels beside them")
    return images[..., 0] if images.shape[3] == 1 else images, labels.astype(np.int64)


def _check_sums(folder: Path) -> None:
    """Refuse files in a folder of the official name that are not the official ones."""
    for name, known in OFFICIAL_MD5.get(folder.name, {}).items():
        file = folder / name
        if not file.is_file():
            continue  # the reader says what is missing
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "md5").hexdigest()
        if found != known:
            raise InvalidInput(
                f"{file} has the MD5 sum {found}; the official file has {known}: unpack the archive again"
            )


def _missing(name: str, folder: Path | None) -> InvalidInput:
    place = "no folder was named (--data DIR or GMMATCH_DATA)" if folder is None else f"not found in {folder}"
    return InvalidInput(f"the dataset {name} is missing: {place}; {BENCHMARKS[name].advice}")


OFFICIAL_MD5 = {
    "cifar-10-batches-py": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    "cifar-100-python": {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    },
}

_TORONTO = "www.cs.toronto.edu/~kriz/cifar.html"
BENCHMARKS: dict[str, Source] = {
    "digits": Source(_digits, "cpu-plain", 1347, (8, 8, 1), 10, "it comes with scikit-learn"),
    "cifar10": Source(
        _cifar10,
        "cifar",
        50_000,
        (32, 32, 3),
        10,
        f"get cifar-10-python.tar.gz from {_TORONTO} and unpack it there, or put cifar10.npz there",
    ),
    "cifar100": Source(
        _cifar100,
        "cifar",
        50_000,
        (32, 32, 3),
        100,
        f"get cifar-100-python.tar.gz from {_TORONTO} and unpack it there",
    ),
    "tiny-imagenet": Source(
        _tiny_imagenet,
        "tiny-imagenet",
        100_000,
        (64, 64, 3),
        200,
        "get tiny-imagenet-200.zip from cs231n.stanford.edu and unpack it there",
    ),
    "fashion-mnist": Source(
        _fashion,
        "cpu",
        60_000,
        (28, 28, 1),
        10,
        "get its four IDX files from github.com/zalandoresearch/fashion-mnist into a folder fashion-mnist"
        " there, or install the Debian package dataset-fashion-mnist",
    ),
}
