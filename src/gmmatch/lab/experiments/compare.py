"""The same comparison on the user's own data: which method would serve it best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import data as opened
from ...arrays import IntArray
from ...data import Kind, open_dataset
from ...data.request import names_file
from ...encoders import choose_encoder
from ...encoders.embed import DEFAULT_ENCODERS
from ...errors import InvalidInput, InvalidParameter, MissingExtra
from ...files import check_apart, make_folder
from ...inputs import open_data
from ...matching.budgets import BUDGETS
from ...validation import (
    as_labels,
    as_rows,
    bad_rows,
    check_choice,
    check_keep,
    check_positive_int,
    is_number,
)
from ..training.config import NETWORKS
from ..training.images import stack_images
from .array_cache import cached_arrays, read_arrays
from .benchmarks import Benchmark
from .contenders import compared_methods, find_contender
from .figures import write_curves
from .proxies import content_key
from .runner import Run, run_grids
from .scenarios import parse_scenario
from .specs import PROBE, PROBES, Grid, Training
from .tables import table_files, write_tables

DEFAULT_KEEPS = (0.05, 0.1, 0.3)
_FEWEST_PER_CLASS = 4
_PIXELS = 32  # side of photos whose pixels are the features
_LEVEL = 1.0  # points of accuracy that two methods may differ by and still count as level


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """The user's rows, images or texts, and what is measured on; see :func:`gmmatch.open`."""

    path: str
    labels: str | None = None
    ids: str | None = None
    embedding: str | None = None
    text: str | None = None
    image: str | None = None
    # What turns images or texts into rows, or a network that does; None: the rows, or the pixels.
    encoder: str | None = None
    images: bool = False  # whether images are needed as such: to damage them, or for a network
    # Rows known to be right to measure on, as `path`; by default this share of each class is held out, and
    # its labels are believed.
    test: str | None = None
    test_labels: str | None = None
    test_share: float = 0.25
    on_bad_rows: str = "error"
    unlabelled: str = "error"
    header: str = "auto"

    @cached_property
    def chosen(self) -> str | None:
        """The encoder; None where rows or pixels are compared as they are."""
        if self.images or self.encoder in ("pixels", *NETWORKS):
            return None
        if not self.named and self.found.rows is not None:
            return None
        source = self.path if self.named else self.found
        return str(choose_encoder(source, self.encoder, self.text, self.image)[0])

    @property
    def named(self) -> bool:
        """Whether what turns images or texts into rows was named, or their column."""
        return self.encoder is not None or self.text is not None or self.image is not None

    @cached_property
    def proxy(self) -> str:
        """Whose features the methods see, as results name it."""
        if self.found.rows is not None:
            return "pixels"
        return self.chosen or self.encoder or ("pixels" if self.image is None else DEFAULT_ENCODERS["image"])

    @cached_property
    def found(self) -> opened.Dataset:
        """What is there, opened; nothing is encoded yet."""
        holds: Kind | None = None
        if self.images or self.encoder in ("pixels", *NETWORKS):
            holds = "image"
        elif self.named:
            holds = choose_encoder(self.path, self.encoder, self.text, self.image)[1]
        found = open_dataset(
            self.path,
            self.labels,
            self.ids,
            embedding=self.embedding,
            text=self.text,
            image=self.image,
            holds=holds,
            on_bad_rows=self.on_bad_rows,
            unlabelled=self.unlabelled,
            header=self.header,
        )
        if found.labels is None:
            raise InvalidInput(f"{self.path} has no labels; name a column or a file with --labels")
        return found

    @property
    def known_labels(self) -> npt.NDArray[Any]:
        """Labels of the rows that take part, as far as they are known before anything is encoded."""
        labels = self.found.labels
        assert labels is not None
        return np.delete(labels, self.found.bad_rows)

    @cached_property
    def encoded(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[str, ...]]:
        """The inputs, their labels, and notes: images as uint8, or rows of numbers."""
        found, notes, drop = self.found, self.found.notes, self.on_bad_rows == "drop"
        bad = set(found.bad)
        if self.chosen is not None:
            found = open_data(found, encoder=self.encoder, on_bad_rows=self.on_bad_rows, encode=True)
            bad, notes = set(found.bad), found.notes
        if found.rows is not None:
            inputs = np.asarray(found.rows[:])
            if drop:
                bad |= set(bad_rows(inputs).tolist())
        else:
            assert found.content is not None
            inputs, unreadable, note = stack_images(
                found.content, found.name, drop=drop, square=64 if self.images else _PIXELS
            )
            bad |= set(unreadable)
            notes = notes if note is None else (*notes, note)
        good = np.setdiff1d(np.arange(len(found)), list(bad)).astype(np.int64)
        inputs = inputs if len(good) == len(inputs) else inputs[good]
        if found.rows is not None:
            inputs = as_rows(inputs, self.path)[:]
        assert found.labels is not None
        if bad:
            notes = (*notes, f"left out {len(bad):,} rows of {self.path} that cannot be used")
        return inputs, found.labels[good], notes

    @cached_property
    def content(self) -> tuple[npt.NDArray[Any], IntArray, npt.NDArray[Any]]:
        """The inputs, their class numbers, and the classes."""
        inputs, labels, _ = self.encoded
        classes, codes = as_labels(labels, len(inputs))
        check_classes(classes, codes)
        return inputs, codes, classes

    @property
    def test_data(self) -> OwnData | None:
        """What is measured on, where it is named."""
        if self.test is None:
            return None
        same = None if self.labels is None or names_file(self.labels) else self.labels
        labels = same if self.test_labels is None else self.test_labels
        ids = None if self.ids is None or names_file(self.ids) else self.ids
        return replace(self, path=self.test, labels=labels, ids=ids, test=None, test_labels=None)

    @cached_property
    def test_content(self) -> dict[str, npt.NDArray[Any]]:
        """The test set as arrays, its labels as class numbers; empty where a share is held out."""
        test = self.test_data
        if test is None:
            return {}
        inputs, labels, _ = test.encoded
        own, _, classes = self.content
        unknown = set(labels.tolist()) - set(classes.tolist())
        if unknown:
            raise InvalidInput(f"{self.test} has a class {min(unknown)!r} that {self.path} does not have")
        if inputs.shape[1:] != own.shape[1:]:
            raise InvalidInput(
                f"the rows of {self.test} have the shape {inputs.shape[1:]}, those of {self.path}"
                f" {own.shape[1:]}; --encoder makes images of any size alike"
            )
        return {"test_inputs": inputs, "test_labels": np.searchsorted(classes, labels)}

    def train_rows(self, rows: int) -> int:
        """Return how many of the rows are learned from."""
        return rows if self.test is not None else int((1 - self.test_share) * rows)

    def key(self) -> str:
        """Return a digest of the data and how it is split."""
        inputs, codes, _ = self.content
        return content_key(inputs, codes, self.test_share, *self.test_content.values())

    def saved(self, cache: Path) -> SavedData:
        """Write the arrays where every process finds them."""
        inputs, codes, _ = self.content
        file = cache / "data" / f"{self.key()}.npz"
        arrays = {"inputs": inputs, "labels": codes, **self.test_content}
        cached_arrays(file, lambda: arrays, tuple(arrays))
        return SavedData(file, self.test_share, self.test is not None)


@dataclass(frozen=True)
class SavedData:
    """Arrays of a comparison in a file; every seed splits them anew, unless they have a test set."""

    file: Path
    test_share: float
    tested: bool = False  # whether there is a test set

    def open(self, name: str, seed: int) -> Benchmark:
        """Return the data, split by the seed."""
        names = ("inputs", "labels", *(("test_inputs", "test_labels") if self.tested else ()))
        arrays = read_arrays(self.file, names)
        if arrays is None:
            raise InvalidInput(f"{self.file} is gone; start the comparison again")
        inputs, codes = arrays["inputs"], arrays["labels"]
        if self.tested:
            return Benchmark(name, inputs, codes, arrays["test_inputs"], arrays["test_labels"])
        from sklearn.model_selection import train_test_split

        train, test = train_test_split(
            np.arange(len(inputs)), test_size=self.test_share, random_state=seed, stratify=codes
        )
        return Benchmark(name, inputs[train], codes[train], inputs[test], codes[test])


def check_classes(classes: npt.NDArray[Any], codes: IntArray) -> None:
    """Refuse classes of too few rows to learn from some and measure on others."""
    sizes = np.bincount(codes)
    if len(classes) < 2 or sizes.min() < _FEWEST_PER_CLASS:
        rare = classes[sizes.argmin()].item()
        raise InvalidInput(
            f"a comparison needs at least two classes of at least {_FEWEST_PER_CLASS} rows; got"
            f" {len(classes)}, of which {rare!r} has {sizes.min()}"
        )


@dataclass(frozen=True)
class Comparison:
    """What to compare.

    Attributes
    ----------
    methods, keeps, scenarios
        The axes; a scenario damages the training part on purpose. A method is a name, or ``name+guard`` for
        one that is to pick trusted rows first.
    target
        ``linear-probe``, or a network for images.
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
    seeds: int = 3
    epochs: int | None = None
    severity: int = 3
    budgets: str = "proportional"

    @property
    def needs_images(self) -> bool:
        """Whether images are needed as such."""
        damaged = any(parse_scenario(name).needs_images for name in self.scenarios)
        return damaged or self.target not in PROBES

    def check(self) -> None:
        """Refuse what is wrong whatever the data."""
        for method in self.methods:
            find_contender(method)
        for scenario in self.scenarios:
            parse_scenario(scenario)
        for keep in self.keeps:
            check_keep(keep)
        check_choice(self.budgets, BUDGETS, "--budgets")
        check_choice(self.target, (*PROBES, *NETWORKS), "--target")
        check_positive_int(self.seeds, "--seeds")

    def possible(self, rows: int, classes: int) -> tuple[tuple[float, ...], list[str]]:
        """Return the budgets that can be measured, as shares, and why others cannot.

        Every class needs a row; what stops early needs two, because some are watched and not learned.
        """
        fewest = classes * (2 if self.target == PROBE else 1)
        shares, notes = [], []
        for keep in sorted({share_of(keep, rows) for keep in self.keeps}):
            k = round(keep * rows)
            if keep <= 1 and k >= fewest:
                shares.append(keep)
                continue
            notes.append(
                f"--keep {100 * keep:.4g}% is {k:,} of {rows:,} rows to learn from, in {classes:,} classes;"
                f" {self.target} needs from {fewest:,} to {rows:,}"
                f" (--keep {math.ceil(1000 * fewest / rows) / 10:g}%)"
            )
        return tuple(shares), notes

    def grid(self, name: str, data_key: str, proxy: str, keeps: tuple[float, ...]) -> Grid:
        """Return the grid of all cells that can be."""
        how = Training(epochs=self.epochs)
        return Grid(
            table="compare",
            scale="cpu",
            datasets=(name,),
            scenarios=self.scenarios,
            targets=(self.target,),
            proxy=proxy,
            methods=self.methods,
            keeps=keeps,
            seeds=tuple(range(self.seeds)),
            severity=self.severity,
            budgets=self.budgets,
            training=how,
            proxy_training=how,
            signal_training=how,
            data_key=data_key,
        )


def compare(
    data: OwnData,
    asked: Comparison,
    output: Path,
    *,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[Run, list[Path]]:
    """Try every method on the user's data, and write tables and curves to `output`."""
    say = say or (lambda words: None)
    asked.check()
    if not (is_number(data.test_share) and 0 < data.test_share < 1):
        raise InvalidParameter(f"--test-share must be a share between 0 and 1; got {data.test_share!r}")
    _check_budgets(data, asked)
    inputs, _, classes = data.content
    keeps, notes = asked.possible(data.train_rows(len(inputs)), len(classes))
    if not keeps:
        raise InvalidParameter(f"no budget can be measured: {'; '.join(notes)}")
    for note in notes:
        say(f"left out: {note}")
    make_folder(output)
    check_apart([*table_files("compare", output), output / "curves.png"], (data.path, data.labels, data.test))
    grid = asked.grid(Path(data.path).stem or "data", data.key(), data.proxy, keeps)
    cache = output / "cache"
    run = run_grids([grid], output / "cells", data=data.saved(cache), cache=cache, workers=workers, say=say)
    shares = "" if asked.budgets == "proportional" else f", {asked.budgets} budgets"
    files = write_tables(as_shown(run.records), output, f"Comparison on {Path(data.path).name}{shares}")
    try:
        write_curves(as_shown(run.records), output / "curves.png")
        files.append(output / "curves.png")
    except MissingExtra as error:
        say(f"no picture: {error}")
    return run, files


def _check_budgets(data: OwnData, asked: Comparison) -> None:
    """Refuse budgets and classes that cannot be, by the labels alone, before anything is encoded."""
    labels = data.known_labels
    classes, codes = as_labels(labels, len(labels))
    check_classes(classes, codes)
    keeps, notes = asked.possible(data.train_rows(len(labels)), len(classes))
    if not keeps:
        raise InvalidParameter(f"no budget can be measured: {'; '.join(notes)}")
    if data.test_data is not None:
        unknown = set(data.test_data.known_labels.tolist()) - set(classes.tolist())
        if unknown:
            raise InvalidInput(f"{data.test} has a class {min(unknown)!r} that {data.path} does not have")


def share_of(keep: float, rows: int) -> float:
    """Return a budget as a share of the rows to learn from: a whole number above one is a count.

    >>> share_of(0.1, 500), share_of(50, 500)
    (0.1, 0.1)
    """
    return keep if keep <= 1 else keep / rows


def advise(records: Sequence[dict[str, Any]]) -> list[str]:
    """Say in a sentence per scenario which method to use at which budget.

    Methods are level with the best where the mean difference over seeds is at most a point, or at most twice
    its standard error.

    >>> made = [{"scenario": "as given", "seed": 0, "keep": keep, "method": method, "accuracy": accuracy}
    ...         for keep, method, accuracy in [(0.05, "a", 80.0), (0.05, "b", 70.0), (0.3, "a", 90.0),
    ...                                        (0.3, "b", 90.5)]]
    >>> advise(made)
    ['at 5 %: a; at 30 % all methods are level']
    """
    told = []
    scenarios = list(dict.fromkeys(record["scenario"] for record in records))
    for scenario in scenarios:
        mine = [record for record in records if record["scenario"] == scenario and record["keep"] < 1]
        parts: list[tuple[str, list[float]]] = []
        for keep in sorted({record["keep"] for record in mine}):
            level = _level([record for record in mine if record["keep"] == keep])
            if parts and parts[-1][0] == level:
                parts[-1][1].append(keep)
            else:
                parts.append((level, [keep]))
        sentences = []
        for place, (level, keeps) in enumerate(parts):
            last = place == len(parts) - 1 and len(keeps) > 1
            where = f"from {100 * keeps[0]:.3g} % on" if last else f"at {_percents(keeps)}"
            if place == 0 and last:
                where = f"at {_percents(keeps)}"
            sentences.append(f"{where} {level}" if level == _ALL_LEVEL else f"{where}: {level}")
        if sentences:
            named = f"{scenario}: " if len(scenarios) > 1 else ""
            told.append(named + "; ".join(sentences))
    return told


_ALL_LEVEL = "all methods are level"
_MOST_NAMED = 3


def _level(records: Sequence[dict[str, Any]]) -> str:
    """Return the methods that no other is clearly better than, the best first."""
    by_method: dict[str, dict[int, float]] = {}
    for record in records:
        by_method.setdefault(record["method"], {})[record["seed"]] = record["accuracy"]
    means = {name: float(np.mean(list(found.values()))) for name, found in by_method.items()}
    order = sorted(means, key=lambda name: -means[name])
    best = by_method[order[0]]
    level = []
    for name in order:
        gaps = np.array([best[seed] - by_method[name][seed] for seed in best if seed in by_method[name]])
        error = 0.0 if len(gaps) < 2 else float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
        if gaps.mean() <= max(_LEVEL, 2 * error):
            level.append(name)
    if len(level) == len(order) > 1:
        return _ALL_LEVEL
    named = level[:_MOST_NAMED]
    more = f" and {len(level) - len(named)} more" if len(level) > len(named) else ""
    return " or ".join(named) + more


def _percents(keeps: Sequence[float]) -> str:
    *others, last = [f"{100 * keep:.3g}" for keep in keeps]
    return f"{', '.join(others)} and {last} %" if others else f"{last} %"


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
