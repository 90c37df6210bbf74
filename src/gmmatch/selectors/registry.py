"""The methods by name: one line each."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidParameter
from ..validation import check_parameters, nearest
from .base import Selector
from .easy import Easy
from .facility_location import FacilityLocation
from .gm_matching import GMMatching
from .hard import Hard
from .herding import Herding
from .k_center import KCenter
from .moderate import Moderate
from .optimization import Optimization
from .random import Random
from .self_supervised import SelfSupervised
from .stratified import Stratified
from .top_scores import TopScores


@dataclass(frozen=True)
class Method:
    """One entry of the registry.

    Attributes
    ----------
    name
        What users call it.
    selector
        The class behind it.
    keeps
        What it keeps, in one line.
    needs
        What it needs beside the rows.
    cost
        Its time.
    source
        Paper and year.
    fixed
        Parameters that this entry sets and users cannot.
    """

    name: str
    selector: type[Selector]
    keeps: str
    needs: str
    cost: str
    source: str
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_rows_only(self) -> bool:
        """Whether it runs on rows and labels, without scores or a training run."""
        return self.needs.startswith("labels optional")

    @property
    def needs_training(self) -> bool:
        """Whether its scores come out of a training run on rows and labels."""
        return self.needs == _LABELS_AND_TRAINING

    def parameters(self) -> list[str]:
        """Return the names of the parameters that users can set."""
        return [name for name in inspect.signature(self.selector).parameters if name not in self.fixed]

    def defaults(self) -> dict[str, Any]:
        """Return what it does where users set nothing, budget and seed apart."""
        named = inspect.signature(self.selector).parameters
        every = {name: parameter.default for name, parameter in named.items()} | dict(self.fixed)
        return {name: value for name, value in every.items() if name not in ("keep", "random_state")}

    def build(self, **params: Any) -> Selector:
        """Return the estimator with these parameters."""
        check_parameters(params, self.parameters(), f"method {self.name!r}")
        estimator = self.selector(**self.fixed, **params)
        # An entry with fixed parameters goes by its own name in the results.
        estimator.name = self.name  # type: ignore[misc]
        return estimator


_LABELS_AND_TRAINING = "labels, a training run (extra torch)"
_HIGHEST = {"prefer": "highest"}
_PAPER = {"step": "projection", "start": "center", "guard": "off"}
_GMM = "Acharya et al. 2024"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("gm-matching", GMMatching, "rows whose mean matches a robust centre, trusted rows first",
               "labels optional", "O(n^2 d) per class, O(n d batch) in batches", _GMM),
        Method("gm-matching-paper", GMMatching, "the paper's text: projection step, no guard",
               "labels optional", "O(n^2 d) per class, O(n d batch) in batches", _GMM, _PAPER),
        Method("herding", Herding, "rows whose mean matches the mean",
               "labels optional", "O(n^2 d) per class, O(n d batch) in batches", "Welling 2009"),
        Method("random", Random, "a uniformly random subset", "labels optional", "O(n)", "-"),
        Method("easy", Easy, "the rows nearest to the centre",
               "labels optional", "O(n d)", "Acharya et al. 2024, ablation"),
        Method("hard", Hard, "the rows farthest from the centre",
               "labels optional", "O(n d)", "Acharya et al. 2024, ablation"),
        Method("moderate", Moderate, "the rows around the median distance to the centre",
               "labels optional", "O(n d)", "Xia et al. 2023"),
        Method("self-supervised", SelfSupervised, "the rows farthest from (or nearest to) k-means prototypes",
               "labels optional", "O(n d clusters) per pass", "Sorscher et al. 2022"),
        Method("k-center", KCenter, "rows that leave no row far from a pick",
               "labels optional", "O(n d) per pick", "Gonzalez 1985; Sener and Savarese 2018"),
        Method("facility-location", FacilityLocation, "rows that bring the rows near a pick on average",
               "labels optional", "O(n^2 d) per class, O(n d anchors) with anchors",
               "Nemhauser et al. 1978; Minoux 1978"),
        Method("stratified", Stratified, "equal draws from strata of difficulty, the hardest rows dropped",
               "labels optional, scores optional", "O(n d)", "Zheng et al. 2023"),
        Method("top-scores", TopScores, "the highest, lowest or most ordinary of given scores",
               "scores, labels optional", "O(n log n)", "-"),
        Method("forgetting", TopScores, "the rows that a network forgets most often while it trains",
               _LABELS_AND_TRAINING, "a training run", "Toneva et al. 2019", _HIGHEST),
        Method("el2n", TopScores, "the rows that a network errs most on, early in training",
               _LABELS_AND_TRAINING, "the first epochs of a training run", "Paul et al. 2021", _HIGHEST),
        Method("grand", TopScores, "the rows with the longest gradients, early in training",
               _LABELS_AND_TRAINING, "the first epochs of a training run", "Paul et al. 2021", _HIGHEST),
        Method("optimization", Optimization, "the rows whose complement moves the last layer least",
               _LABELS_AND_TRAINING, "a training run, O(n^2) per class", "Yang et al. 2022"),
    )
}  # fmt: skip


def find_method(name: Any) -> Method:
    """Return the entry of a method, or raise an error that names the nearest known one."""
    if not isinstance(name, str) or name not in METHODS:
        raise InvalidParameter(
            f"there is no method {name!r}{nearest(name, METHODS)}; the methods are: {', '.join(METHODS)}"
        )
    return METHODS[name]


def methods() -> list[str]:
    """Return the names that `gmmatch.select` accepts as `method`.

    Examples
    --------
    >>> "gm-matching" in methods()
    True
    """
    return list(METHODS)
