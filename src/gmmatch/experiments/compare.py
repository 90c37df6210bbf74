"""The same comparison on the user's own data: which method would serve it best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..encoders.images import as_pixels
from ..encoders.inputs import open_input
from ..errors import InvalidInput, InvalidParameter
from ..records import IntArray
from ..selectors import compared_methods, find_method
from ..sources import open_source
from ..training.config import NETWORKS
from ..validation import as_labels, as_rows, check_choice, check_positive_int, is_number
from .datasets import Dataset
from .proxies import content_key
from .reproduce import write_results
from .runner import Run, run_grids
from .scenarios import parse_scenario
from .specs import PROBE, PROBES, Grid, Training

DEFAULT_KEEPS = (0.05, 0.1, 0.3)
_FEWEST_PER_CLASS = 4


@dataclass(frozen=True)
class OwnData:
    """The user's rows or images, split anew by every seed.

    Attributes
    ----------
    path
        What :func:`gmmatch.open_source` opens, a table of numbers (``.csv``), or images: a folder, or a
        uint8 array of three or four dimensions.
    labels
        A column of it, or a file with one label per row.
    embedding
        The column, array or tensor that holds the embeddings.
    test_share
        Share of the rows, of each class, that is held out to measure on; its labels are believed.
    """

    path: str
    labels: str | None
    embedding: str | None = None
    test_share: float = 0.25

    @cached_property
    def content(self) -> tuple[npt.NDArray[Any], IntArray, npt.NDArray[Any]]:
        """The inputs, their class numbers, and the classes."""
        inputs, labels = _read(Path(self.path), self.labels, self.embedding)
        if inputs.dtype != np.uint8:
            inputs = as_rows(inputs, self.path)
        if labels is None:
            raise InvalidInput(f"{self.path} has no labels; name a column or a file with --labels")
        classes, codes = as_labels(labels, len(inputs))
        sizes = np.bincount(codes)
        if len(classes) < 2 or sizes.min() < _FEWEST_PER_CLASS:
            rare = classes[sizes.argmin()]
            raise InvalidInput(
                f"a comparison needs at least two classes of at least {_FEWEST_PER_CLASS} rows; got"
                f" {len(classes)}, of which {rare!r} has {sizes.min()}"
            )
        return inputs, codes, classes

    def open(self, name: str, seed: int) -> Dataset:
        """Return the data, split by the seed."""
        from sklearn.model_selection import train_test_split

        inputs, codes, _ = self.content
        train, test = train_test_split(
            np.arange(len(inputs)), test_size=self.test_share, random_state=seed, stratify=codes
        )
        return Dataset(name, inputs[train], codes[train], inputs[test], codes[test])

    def key(self) -> str:
        """Return a digest of the data and how it is split."""
        inputs, codes, _ = self.content
        return content_key(inputs, codes, self.test_share)


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Attributes
    ----------
    methods, keeps, scenarios
        The axes; a scenario damages the training part on purpose.
    target
        ``linear-probe``, or a network for images.
    proxy
        ``pixels`` (the rows as they are), a network, or a pretrained encoder for images.
    seeds
        How many splits.
    epochs
        Of a network's training; None for the recipe's.
    """

    methods: tuple[str, ...] = field(default_factory=compared_methods)
    keeps: tuple[float, ...] = DEFAULT_KEEPS
    scenarios: tuple[str, ...] = ("clean",)
    target: str = PROBE
    proxy: str = "pixels"
    seeds: int = 3
    epochs: int | None = None
    severity: int = 3

    def grid(self, name: str, data_key: str) -> Grid:
        """Return the grid of all cells, its values checked."""
        for method in self.methods:
            find_method(method)
        for scenario in self.scenarios:
            parse_scenario(scenario)
        for keep in self.keeps:
            if not (is_number(keep) and 0 < keep <= 1):
                raise InvalidParameter(f"--keep must be shares in (0, 1], such as 5%,10%; got {keep!r}")
        check_choice(self.target, (*PROBES, *NETWORKS), "--target")
        how = Training(epochs=self.epochs)
        return Grid(
            table="compare",
            scale="cpu",
            datasets=(name,),
            scenarios=self.scenarios,
            targets=(self.target,),
            proxy=self.proxy,
            methods=self.methods,
            keeps=tuple(sorted(set(self.keeps))),
            seeds=tuple(range(check_positive_int(self.seeds, "--seeds"))),
            severity=self.severity,
            training=how,
            proxy_training=how,
            signal_training=how,
            data_key=data_key,
        )


def compare(
    data: OwnData,
    plan: Plan,
    output: Path,
    *,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[Run, list[Path]]:
    """Try every method on the user's data, and write tables and curves to `output`."""
    if not (is_number(data.test_share) and 0 < data.test_share < 1):
        raise InvalidParameter(f"--test-share must be a share between 0 and 1; got {data.test_share!r}")
    grid = plan.grid(Path(data.path).stem or "data", data.key())
    inputs = data.content[0]
    if inputs.ndim == 2 and (plan.target not in PROBES or plan.proxy != "pixels"):
        raise InvalidInput(f"{data.path} holds rows of numbers; a network or an encoder needs images")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {output}: {error.strerror or error}") from error
    run = run_grids([grid], output / "cells", data=data, cache=output / "cache", workers=workers, say=say)
    return run, write_results(run.records, output, f"Comparison on {Path(data.path).name}")


def _read(
    path: Path, labels: str | None, embedding: str | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return images as uint8, or rows of numbers, and the labels where there are any."""
    if not path.exists():
        raise InvalidInput(f"there is no file {path}")
    if path.suffix.lower() == ".csv":
        return _read_csv(path, labels)
    if _holds_images(path):
        found = open_input(path, "image", labels=labels)
        return _pixels(found.read(0, len(found)), path), found.labels
    source = open_source(path, embedding, labels)
    return np.asarray(source.rows[:]), source.labels


def _holds_images(path: Path) -> bool:
    if path.is_dir():
        embeddings = ("*.npy", "*.parquet", "*.arrow", "*.safetensors", "state.json", "dataset_dict.json")
        return not any(found for pattern in embeddings for found in path.glob(pattern))
    if path.suffix.lower() == ".npy":
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False).ndim in (3, 4)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"cannot read {path}: {error}") from error
    return False


def _pixels(items: Sequence[Any], path: Path) -> npt.NDArray[Any]:
    images = [as_pixels(item, None) for item in items]
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        first, second = sorted(shapes)[:2]
        raise InvalidInput(f"{path} holds images of the shapes {first} and {second}; expected one shape")
    return np.stack(images)


def _read_csv(path: Path, labels: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Read a table of numbers; one column, or a file beside it, holds the labels."""
    import pyarrow as pa
    from pyarrow import csv

    from ..sources import read_values

    try:
        table = csv.read_csv(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    beside = labels is not None and labels not in table.column_names and Path(labels).is_file()
    if labels is None or not (beside or labels in table.column_names):
        raise InvalidInput(
            f"name the labels of {path} with --labels: a file, or one of its columns"
            f" {', '.join(table.column_names)}; got {labels!r}"
        )
    given = read_values(labels, "labels") if beside else np.asarray(table[labels].to_pylist())
    rest = table if beside else table.drop_columns([labels])
    wrong = [name for name in rest.column_names if not _is_numeric(rest[name].type, pa)]
    if wrong or not rest.column_names:
        raise InvalidInput(
            f"the columns of {path} beside the labels must be numbers; got {', '.join(wrong) or 'none'}"
        )
    rows = np.stack([rest[name].to_numpy().astype(np.float64) for name in rest.column_names], axis=1)
    if len(given) != len(rows):
        raise InvalidInput(f"labels has {len(given)} entries for {len(rows)} rows of {path}")
    return rows, given


def _is_numeric(kind: Any, pa: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
