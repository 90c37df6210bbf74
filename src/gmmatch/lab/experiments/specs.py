"""The paper's tables and figures as data: `specs/*.toml`, one file each, in three sizes."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from ...errors import InvalidInput, InvalidParameter
from ...matching.budgets import check_budgets
from ...validation import check_choice, check_parameters, check_positive_int, nearest
from ..training.config import TrainConfig
from .contenders import Contender, find_contender
from .scenarios import parse_scenario

Scale = Literal["smoke", "cpu", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "cpu", "paper")
KINDS = ("grid", "toy", "convergence", "bounds")

PAPER_METHODS = (
    "random", "easy", "hard", "moderate", "herding", "forgetting", "grand", "el2n", "optimization",
    "self-supervised", "random+guard", "herding+guard", "gm-matching-unguarded", "gm-matching-authors",
    "gm-matching-paper", "gm-matching",
)  # fmt: skip
EMBEDDING_METHODS = (
    "random", "easy", "hard", "moderate", "herding", "self-supervised", "k-center", "facility-location",
    "stratified", "random+guard", "herding+guard", "gm-matching-unguarded", "gm-matching-authors",
    "gm-matching-paper", "gm-matching",
)  # fmt: skip
_METHOD_SETS = {"paper": PAPER_METHODS, "embedding": EMBEDDING_METHODS}

PROBE = "linear-probe"
PROBES = (PROBE, "linear-probe-converged", "neighbours")


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    recipe: str | None = None  # name of a recipe; None means the dataset's own
    # In place of the recipe's.
    epochs: int | None = None
    batch_size: int | None = None
    updates: int | None = None  # steps of the optimiser whatever the number of rows, in place of `epochs`
    # Of the networks whose mean EL2N and GraNd are: how many, and after how many epochs they are looked at.
    seeds: int = 1
    score_at: int | None = None

    def config(self, network: str, rows: int, recipe: str) -> TrainConfig:
        """Return the configuration for so many rows; `recipe` is the dataset's own."""
        plain = TrainConfig(network, self.recipe or recipe, self.epochs, self.batch_size, self.seeds)
        if self.updates is not None:
            steps = -(-rows // plain.resolved().batch_size)
            epochs = max(1, round(self.updates / steps))
            plain = replace(plain, epochs=epochs, batch_size=plain.resolved().batch_size)
        if self.score_at is None:
            return plain
        return replace(plain, score_at=min(self.score_at, plain.resolved().epochs))


@dataclass(frozen=True)
class Grid:
    """All cells of a table at one scale."""

    # Name of the spec and its size.
    table: str
    scale: str
    # The axes; targets are networks, or ``linear-probe`` (stopped early) and ``linear-probe-converged`` on
    # the proxy's features.
    datasets: tuple[str, ...]
    scenarios: tuple[str, ...]
    targets: tuple[str, ...]
    # Whose features the methods see: ``pixels``, a network or the name of a pretrained encoder.
    proxy: str
    methods: tuple[str, ...]
    keeps: tuple[float, ...]
    seeds: tuple[int, ...]
    # How many of the first rows of each set to use; None for all.
    train_rows: int | None = None
    test_rows: int | None = None
    severity: int = 3  # of damaged images
    budgets: str = "proportional"  # how classes share the budget
    # What a network that is the proxy has learned: the undamaged training set, or the damaged one.
    proxy_data: Literal["clean", "given"] = "clean"
    # Of the targets, of the proxy, and of the run that forgetting, GraNd, EL2N and the optimization-based
    # method look at (on the damaged data).
    training: Training = field(default_factory=Training)
    proxy_training: Training = field(default_factory=Training)
    signal_training: Training = field(default_factory=Training)
    data_key: str | None = None  # digest of the data, where it is not one of the known datasets

    def asked(self, method: str) -> Contender:
        """Return who picks rows under a name, with the grid's budgets."""
        return find_contender(method, self.budgets)

    @property
    def size(self) -> int:
        """Number of cells."""
        axes = (self.datasets, self.scenarios, self.targets, self.methods, self.keeps, self.seeds)
        count = 1
        for axis in axes:
            count *= len(axis)
        return count

    def narrowed(
        self,
        methods: Collection[str] | None = None,
        seeds: int | None = None,
        datasets: Collection[str] | None = None,
        scenarios: Collection[str] | None = None,
        keeps: Collection[float] | None = None,
        epochs: int | None = None,
    ) -> Grid:
        """Return the part that has these values on its axes: the first `seeds`, and None for all.

        `epochs`: of every training, in place of the recipe's, to try a run out.
        """

        def some(axis: tuple[Any, ...], wanted: Collection[Any] | None) -> tuple[Any, ...]:
            return axis if wanted is None else tuple(value for value in axis if value in wanted)

        grid = replace(
            self,
            methods=some(self.methods, methods),
            seeds=self.seeds if seeds is None else self.seeds[:seeds],
            datasets=some(self.datasets, datasets),
            scenarios=some(self.scenarios, scenarios),
            keeps=some(self.keeps, None if keeps is None else {round(keep, 9) for keep in keeps}),
        )
        if epochs is None:
            return grid
        fewer = {
            name: replace(getattr(self, name), epochs=epochs, updates=None)
            for name in ("training", "proxy_training", "signal_training")
        }
        return replace(grid, **fewer)


@dataclass(frozen=True)
class Spec:
    """One table or figure: its name, a title, what it shows, and its grids by scale."""

    name: str
    title: str
    about: str
    kind: str
    grids: Mapping[str, tuple[Grid, ...]]

    @property
    def scales(self) -> tuple[str, ...]:
        """The scales that it has."""
        return SCALES if self.kind != "grid" else tuple(scale for scale in SCALES if scale in self.grids)


def spec_names() -> tuple[str, ...]:
    """Return the names of all specs."""
    return tuple(_texts())


def load_spec(name: str) -> Spec:
    """Return the spec of that name."""
    texts = _texts()
    if name not in texts:
        raise InvalidParameter(
            f"there is no table or figure {name!r}{nearest(name, texts)}; there are: {', '.join(texts)}"
        )
    return parse_spec(name, texts[name])


def parse_spec(name: str, text: str) -> Spec:
    """Return a spec from TOML text."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the spec {name!r} is not valid TOML: {error}") from error
    check_parameters(values, ("title", "about", "kind", *SCALES), f"the spec {name!r}")
    grids: dict[str, tuple[Grid, ...]] = {
        scale: tuple(
            _grid(name, scale, part)
            for part in (values[scale] if isinstance(values[scale], list) else [values[scale]])
        )
        for scale in SCALES
        if scale in values
    }
    kind = check_choice(values.get("kind", "grid"), KINDS, "kind")
    return Spec(name, values["title"], values["about"], kind, grids)


def _grid(table: str, scale: str, values: Mapping[str, Any]) -> Grid:
    owner = f"{table} at scale {scale}"
    given_elsewhere = ("table", "scale", "data_key")
    known = [entry.name for entry in fields(Grid) if entry.name not in given_elsewhere]
    check_parameters(values, known, owner)
    named: dict[str, Any] = dict(values)
    methods = named.pop("methods", "paper")
    named["methods"] = _METHOD_SETS[methods] if isinstance(methods, str) else methods
    seeds = named["seeds"]
    named["seeds"] = range(check_positive_int(seeds, "seeds")) if isinstance(seeds, int) else seeds
    named["keeps"] = [round(percent / 100, 9) for percent in named["keeps"]]
    for axis in ("datasets", "scenarios", "targets", "methods", "keeps", "seeds"):
        named[axis] = tuple(named[axis])
    for part in ("training", "proxy_training", "signal_training"):
        if part in named:
            check_parameters(named[part], [entry.name for entry in fields(Training)], f"{part} of {owner}")
            named[part] = Training(**named[part])
    for method in named["methods"]:
        find_contender(method)
    check_budgets(named.get("budgets", "proportional"))
    check_choice(named.get("proxy_data", "clean"), ("clean", "given"), "proxy_data")
    for scenario in named["scenarios"]:
        parse_scenario(scenario)
    return Grid(table, scale, **named)


@cache
def _texts() -> dict[str, str]:
    """Return the text of every spec by name, in the order of the paper."""
    folder = resources.files(__package__) / "specs"
    found = {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    order: list[str] = tomllib.loads(found.pop("order"))["order"]
    return {name: found[name] for name in order}
