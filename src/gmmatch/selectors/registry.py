"""The methods by name: one line each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..arrays import Vector
from ..errors import InvalidParameter
from ..plugins import Registry
from ..validation import check_parameters
from .base import Selector
from .easy import Easy
from .facility_location import FacilityLocation
from .gm_matching import GMMatching
from .hard import Hard
from .herding import Herding
from .k_center import KCenter
from .moderate import Moderate
from .random import Random
from .self_supervised import SelfSupervised
from .small_loss import SmallLoss
from .stratified import Stratified
from .top_scores import TopScores

Train = Callable[..., tuple[dict[str, Vector], dict[str, Any]]]
"""Makes a training run, for a method that selects by what comes out of it.

Called as `train(rows, codes, usable, images=, config=, device=, seed=)`: embeddings and class numbers, which
rows to train on, what to train on instead of the rows (or None), how, where, and with which seed. Returns
what it gives to the method, by the names of parameters, and how it was trained.
"""


@dataclass(frozen=True)
class Method:
    """One entry of the registry: what a method is, and what it can do.

    Code, tests, tables and help read here what a method can do; nobody asks for a method by its name. The
    promises have defaults that promise nothing.
    """

    name: str  # what users call it
    selector: type[Selector]  # the class behind it
    keeps: str = ""  # what it keeps, in one line; the first line of the class's docstring by default
    cost: str = "-"  # its time
    source: str = "-"  # paper and year
    fixed: Mapping[str, Any] = field(default_factory=dict)  # parameters that this entry sets and users cannot
    train: Train | None = None  # makes the training run that it selects by, if it needs one
    needs_labels: bool = False  # it cannot do without labels
    needs_scores: bool = False  # nor without scores that the user gives
    streams: bool = False  # it can pick in batches from rows larger than memory (parameter `batch_size`)
    engine: bool = False  # it runs on engines other than the local one
    seeded: bool = True  # another seed may give other picks
    # A smaller budget's picks are the first of a larger one's, guard or not, wherever rows are matched whole:
    # not in batches, and not in clusters.
    nested: bool = False
    # The order of the rows does not matter, ties apart, guard or not, wherever rows are matched whole: not in
    # batches, and not in clusters of more than 511 rows.
    equivariant: bool = False
    # It divides judged rows without labels into clusters. Their number follows from the budget, so that its
    # first picks are those of the heaviest clusters, and not a smaller budget's.
    clusters: bool = False
    compared: bool = False  # `gmmatch compare` tries it where no methods are named

    def __post_init__(self) -> None:
        if not (isinstance(self.selector, type) and issubclass(self.selector, Selector)):
            raise InvalidParameter(
                f"the selector of method {self.name!r} must be a subclass of Selector; got {self.selector!r}"
            )
        if self.needs_training:
            object.__setattr__(self, "needs_labels", True)
        if not self.keeps:
            object.__setattr__(self, "keeps", inspect.cleandoc(self.selector.__doc__ or "").split("\n")[0])

    @property
    def needs_training(self) -> bool:
        """Whether it selects by what a training run on rows and labels gives."""
        return self.train is not None

    @property
    def needs_rows_only(self) -> bool:
        """Whether rows are enough, or rows and labels: no scores, no training run."""
        return not (self.needs_scores or self.needs_training)

    @property
    def needs(self) -> str:
        """What it needs beside the rows, in words."""
        parts = ["scores"] if self.needs_scores else []
        parts.append("labels" if self.needs_labels else "labels optional")
        if self.needs_training:
            parts.append("a training run (extra torch)")
        elif "scores" in self.parameters() and not self.needs_scores:
            parts.append("scores optional")
        return ", ".join(parts)

    @property
    def can(self) -> str:
        """What it can do and promises, in words."""
        words = {
            "batches": self.streams,
            "clusters": self.engine,
            "prefixes": self.nested,
            "any order": self.equivariant,
            "no seed": not self.seeded,
        }
        return ", ".join(word for word, true in words.items() if true) or "-"

    def parameters(self) -> list[str]:
        """Return the names of the parameters that users can set."""
        return [name for name in self.selector.defaults() if name not in self.fixed]

    def defaults(self) -> dict[str, Any]:
        """Return what it does where users set nothing, budget and seed apart."""
        every = self.selector.defaults() | dict(self.fixed)
        return {name: value for name, value in every.items() if name not in ("keep", "random_state")}

    def build(self, **params: Any) -> Selector:
        """Return the estimator with these parameters."""
        params = self.selector.renamed(params)
        check_parameters(params, self.parameters(), f"method {self.name!r}")
        estimator = self.selector(**self.fixed, **params)
        # An entry with fixed parameters goes by its own name in the results.
        estimator.name = self.name  # type: ignore[misc]
        estimator.check_shared()
        return estimator


_MEDIAN = {"center": "geometric-median", "step": "projection", "guard": "off"}
_PAPER = _MEDIAN | {"start": "center"}
_AUTHORS = _MEDIAN | {"start": "random", "normalize": "unit"}
_GMM = "Acharya et al. 2024"
_MATCHING = "O(n^2 d) per class, O(n d batch) in batches"
_ALONE: dict[str, Any] = {"seeded": False, "nested": True, "equivariant": True}
_RANKS: dict[str, Any] = {"engine": True, **_ALONE}
_MATCHES: dict[str, Any] = {"streams": True, "engine": True, "compared": True, **_ALONE}

_OWN = (
    # The guard draws folds, so that the default is seeded and the paper's text is not.
    Method("gm-matching", GMMatching, "rows whose mean matches a robust centre, trusted rows first",
           _MATCHING, _GMM, **_MATCHES | {"seeded": True, "clusters": True}),
    Method("gm-matching-paper", GMMatching, "the paper's text: projection step, no guard",
           _MATCHING, _GMM, _PAPER, **_MATCHES),
    Method("gm-matching-authors", GMMatching,
           "the published code: projection step on rows of length one, random start, no guard",
           _MATCHING, _GMM, _AUTHORS, **_MATCHES | {"seeded": True, "compared": False}),
    Method("herding", Herding, "rows whose mean matches the mean", _MATCHING, "Welling 2009", **_MATCHES),
    Method("random", Random, "a uniformly random subset", "O(n)", nested=True, compared=True, engine=True),
    Method("easy", Easy, "the rows nearest to the centre",
           "O(n d)", "Acharya et al. 2024, ablation", compared=True, **_RANKS),
    Method("hard", Hard, "the rows farthest from the centre",
           "O(n d)", "Acharya et al. 2024, ablation", **_RANKS),
    Method("moderate", Moderate, "the rows around the median distance to the centre",
           "O(n d)", "Xia et al. 2023", compared=True, **_RANKS),
    Method("self-supervised", SelfSupervised, "the rows farthest from (or nearest to) k-means prototypes",
           "O(n d clusters) per pass", "Sorscher et al. 2022", nested=True, engine=True),
    Method("k-center", KCenter, "rows that leave no row far from a pick",
           "O(n d) per pick", "Gonzalez 1985; Sener and Savarese 2018", **_ALONE),
    # Two rows that are each other's nearest gain equally, so that ties are the rule, not the exception.
    Method("facility-location", FacilityLocation, "rows that bring the rows near a pick on average",
           "O(n^2 d) per class, O(n d anchors) with anchors",
           "Nemhauser et al. 1978; Minoux 1978", seeded=False, nested=True),
    Method("stratified", Stratified, "equal draws from strata of difficulty, the hardest rows dropped",
           "O(n d)", "Zheng et al. 2023", nested=True, engine=True),
    # Where classes lie far apart many labels are certain, and equally so: ties are the rule here too.
    Method("small-loss", SmallLoss, "the rows whose label is most likely by a model that did not see it",
           "that of the guard", "Han et al. 2018", needs_labels=True, nested=True, compared=True),
    Method("top-scores", TopScores, "the highest, lowest or most ordinary of given scores",
           "O(n log n)", needs_scores=True, **_ALONE),
)  # fmt: skip


def _entry(name: str, found: Any) -> Method:
    """Return what the entry point of an installed package gives as an entry: a `Method`, or a class."""
    return replace(found, name=name) if isinstance(found, Method) else Method(name, found)


METHODS = Registry("gmmatch.methods", "method", {method.name: method for method in _OWN}, _entry)
"""The methods by name: the project's own, and those of installed packages."""


def register_method(name: str, selector: type[Selector], **facts: Any) -> Method:
    """Make a method of your own known by name, to `gmmatch.select` and to the other methods' tables.

    A package does the same for all who install it with an entry point of the group `gmmatch.methods`, which
    names a `Method` or a subclass of `Selector`.

    Parameters
    ----------
    name
        What users call it.
    selector
        A subclass of `gmmatch.selectors.Selector`.
    **facts
        What else is known of it, such as `keeps`, `cost`, `source`, `nested`; see `Method`.

    Raises
    ------
    InvalidParameter
        The name is taken, or the class is no selector.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> from gmmatch.selectors import METHODS, Easy
    >>> method = gmmatch.register_method("middle", Easy, fixed={"center": "coordinate-median"}, nested=True)
    >>> gmmatch.select(np.array([[0.0], [1.0], [9.0]]), keep=1, method="middle").indices
    array([1])
    >>> del METHODS["middle"]
    """
    check_parameters(facts, [each.name for each in fields(Method)], "a method")
    return METHODS.register(name, Method(name, selector, **facts))


find_method = METHODS.find
"""Returns the entry of a method, or raises an error that names the nearest known one."""


def methods() -> list[str]:
    """Return the names that `gmmatch.select` accepts as `method`.

    Examples
    --------
    >>> "gm-matching" in methods()
    True
    """
    return list(METHODS)
