"""The same comparison on the user's own data: which method would serve it best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import data as opened
from ..data import open_dataset
from ..data.images import stack_images
from ..errors import InvalidInput, InvalidParameter, MissingExtra
from ..files import make_folder
from ..matching.budgets import BUDGETS
from ..records import IntArray
from ..selectors import compared_methods
from ..training.config import NETWORKS
from ..validation import as_labels, as_rows, bad_rows, check_choice, check_positive_int, is_number
from .contenders import find_contender
from .datasets import Dataset
from .figures import write_curves
from .proxies import content_key
from .runner import Run, run_grids
from .scenarios import parse_scenario
from .specs import PROBE, PROBES, Grid, Training
from .tables import write_tables

DEFAULT_KEEPS = (0.05, 0.1, 0.3)
_FEWEST_PER_CLASS = 4


@dataclass(frozen=True)
class OwnData:
    """The user's rows or images, split anew by every seed."""

    path: str  # what :func:`gmmatch.open` opens: embeddings, a table of numbers, or images
    labels: str | None  # a column of it, or a file with one label per row
    embedding: str | None = None  # the column, array or tensor that holds the embeddings
    # Share of the rows, of each class, that is held out to measure on; its labels are believed.
    test_share: float = 0.25
    # See :func:`gmmatch.data.open_dataset`.
    on_bad_rows: str = "error"
    unlabelled: str = "error"

    @cached_property
    def content(self) -> tuple[npt.NDArray[Any], IntArray, npt.NDArray[Any]]:
        """The inputs, their class numbers, and the classes."""
        found = open_dataset(
            self.path,
            self.labels,
            embedding=self.embedding,
            on_bad_rows=self.on_bad_rows,
            unlabelled=self.unlabelled,
        )
        inputs, labels = _inputs(found), found.labels
        if labels is None:
            raise InvalidInput(f"{self.path} has no labels; name a column or a file with --labels")
        good = np.setdiff1d(np.arange(len(found)), found.bad_rows)
        if self.on_bad_rows == "drop" and found.rows is not None:
            good = np.setdiff1d(good, bad_rows(inputs))
        inputs = inputs[good]
        if found.rows is not None:
            inputs = as_rows(inputs, self.path)
        classes, codes = as_labels(labels[good], len(inputs))
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
        The axes; a scenario damages the training part on purpose. A method is a name, or ``name+guard`` for
        one that is to pick trusted rows first.
    target
        ``linear-probe``, or a network for images.
    proxy
        ``pixels`` (the rows as they are), a network, or a pretrained encoder for images.
    seeds
        How many splits.
    epochs
        Of a network's training; None for the recipe's.
    budgets
        How classes share the budget: `proportional`, `sqrt` or `equal`.
    """

    methods: tuple[str, ...] = field(default_factory=compared_methods)
    keeps: tuple[float, ...] = DEFAULT_KEEPS
    scenarios: tuple[str, ...] = ("clean",)
    target: str = PROBE
    proxy: str = "pixels"
    seeds: int = 3
    epochs: int | None = None
    severity: int = 3
    budgets: str = "proportional"

    def grid(self, name: str, data_key: str) -> Grid:
        """Return the grid of all cells, its values checked."""
        for method in self.methods:
            find_contender(method)
        for scenario in self.scenarios:
            parse_scenario(scenario)
        for keep in self.keeps:
            if not (is_number(keep) and 0 < keep <= 1):
                raise InvalidParameter(f"--keep must be shares in (0, 1], such as 5%,10%; got {keep!r}")
        check_choice(self.budgets, BUDGETS, "--budgets")
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
            budgets=self.budgets,
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
    make_folder(output)
    run = run_grids([grid], output / "cells", data=data, cache=output / "cache", workers=workers, say=say)
    shares = "" if plan.budgets == "proportional" else f", {plan.budgets} budgets"
    files = write_tables(as_shown(run.records), output, f"Comparison on {Path(data.path).name}{shares}")
    try:
        write_curves(as_shown(run.records), output / "curves.png")
        files.append(output / "curves.png")
    except MissingExtra as error:
        if say is not None:
            say(f"no picture: {error}")
    return run, files


def as_shown(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return results on own data in its terms: what was not damaged on purpose may be wrong as it is."""
    own = {"clean": "as given"}
    return [
        record
        | {
            "scenario": own.get(record["scenario"], record["scenario"]),
            "proxy": "" if record["proxy"] == "pixels" else record["proxy"],
        }
        for record in records
    ]


def _inputs(found: opened.Dataset) -> npt.NDArray[Any]:
    """Return images as uint8, or rows of numbers."""
    if found.rows is not None:
        return np.asarray(found.rows[:])
    if found.content is None or found.content.kind != "image":
        raise InvalidInput(f"{found.name} holds texts; expected embeddings, a table of numbers, or images")
    return stack_images(found.content, found.name)
