"""The paper's own figures, found by our names.

``paper.csv`` holds every figure of the result tables of Acharya, Dhillon, Sanghavi: Geometric Median (GM)
Matching for Robust Data Pruning, 2024: test accuracy in percent, with its spread over five seeds.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

SOURCE = "Acharya, Dhillon, Sanghavi: Geometric Median (GM) Matching for Robust Data Pruning, 2024"

PROBE = "linear-probe"
"""The target that is a linear classifier on the proxy's features."""

_METHODS = {
    "random": "Random",
    "herding": "Herding",
    "forgetting": "Forgetting",
    "grand": "GraNd-score",
    "el2n": "EL2N-score",
    "optimization": "Optimization-based",
    "self-supervised": "Self-sup.-selection",
    "moderate": "Moderate-DS",
    "gm-matching-paper": "GM Matching",
    "gm-matching": "GM Matching",
}
_SCENARIOS = {
    "clean": ("No Corruption",),
    "images-5": ("5% Feature Corruption",),
    "images-10": ("10% Feature Corruption",),
    "images-20": ("20% Feature Corruption",),
    "labels-20": ("20% Label Noise", "20% Label Corruption"),
    "labels-35": ("35% Label Noise",),
    "pgd": ("PGD Attack",),
    "fgsm": ("GS Attack",),
    "gs": ("GS Attack",),
}
_NETWORKS = {
    "resnet50": "ResNet-50",
    "senet": "SENet",
    "senet18": "SENet",
    "efficientnetb0": "EfficientNet-B0",
    "vgg16": "VGG-16",
    "shufflenet": "ShuffleNet",
    "shufflenetv2": "ShuffleNet",
}
_TRAINED = re.compile(r"(resnet|vgg|senet|shufflenet|efficientnet-b).*")
Regime = Literal["same", "transfer"]


@dataclass(frozen=True)
class PaperFigure:
    """One cell of the paper's tables."""

    table: str  # the paper's label of the table
    # In the paper's words.
    dataset: str
    corruption: str
    proxy: str
    target: str
    method: str
    keep: float
    # Test accuracy in percent.
    accuracy: float
    spread: float

    @property
    def regime(self) -> Regime:
        """Whether one network chooses and learns, or rows chosen by one train another."""
        return "same" if self.proxy == self.target else "transfer"


@cache
def paper_figures() -> tuple[PaperFigure, ...]:
    """Return every figure of the paper's tables."""
    text = files(__package__).joinpath("paper.csv").read_text(encoding="utf-8")
    figures = []
    for row in csv.DictReader(text.splitlines()):
        proxy, target = row["proxy_to_target"].split(" -> ")
        figures.append(
            PaperFigure(
                row["table"],
                row["dataset"],
                row["corruption"],
                proxy,
                target,
                row["method"],
                int(row["keep_percent"]) / 100,
                float(row["accuracy"]),
                float(row["spread"]),
            )
        )
    return tuple(figures)


def find_figure(
    dataset: str, scenario: str, proxy: str, target: str, method: str, keep: float, table: str | None = None
) -> PaperFigure | None:
    """Return the paper's figure for one of our cells, or None where the paper has none.

    `dataset`, `proxy`, `target`: names of data and networks; case, spaces and dashes do not matter.
    `scenario`, `method`: our names, such as ``"labels-20"`` and ``"el2n"``. The paper's one GM Matching
    stands beside both ``gm-matching`` and ``gm-matching-paper``. `table`: the paper's label of a table;
    figures that stand in several tables are the same in all.
    """
    for figure in figures_of(scenario, [method]):
        if (
            _plain(figure.dataset) == _plain(dataset)
            and figure.proxy == _NETWORKS.get(_plain(proxy))
            and figure.target == _NETWORKS.get(_plain(target))
            and abs(figure.keep - keep) < 1e-9
            and table in (None, figure.table)
        ):
            return figure
    return None


def figures_of(scenario: str, methods: Iterable[str] = tuple(_METHODS)) -> list[PaperFigure]:
    """Return the paper's figures of a scenario for some of our methods, whatever the data and networks."""
    corruptions = _SCENARIOS.get(scenario, ())
    names = {_METHODS[method] for method in methods if method in _METHODS}
    return [
        figure for figure in paper_figures() if figure.corruption in corruptions and figure.method in names
    ]


def regime_of(proxy: str, target: str) -> Regime | None:
    """Return which of the paper's tables a proxy and a target compare with; None where it has none.

    A linear probe learns on the features that chose its rows: one network. Rows chosen by a foreign
    encoder that train a network from scratch have no table in the paper.

    >>> regime_of("resnet8", "resnet8"), regime_of("resnet8", "vgg16"), regime_of("timm:resnet18", "resnet18")
    ('same', 'transfer', None)
    """
    if target in (proxy, PROBE):
        return "same"
    return "transfer" if _TRAINED.fullmatch(proxy) else None


def paper_name(method: str) -> str | None:
    """Return what the paper calls a method, or None where its tables do not have it.

    >>> paper_name("grand")
    'GraNd-score'
    """
    return _METHODS.get(method)


def _plain(name: str) -> str:
    """Return a name without what spellings differ in."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())
