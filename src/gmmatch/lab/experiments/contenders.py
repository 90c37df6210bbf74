"""Rows of a table: methods, the same with or without the guard, and what people do today instead.

``cleanlab+METHOD`` leaves out the rows that cleanlab finds an issue with (its defaults, on probabilities of
logistic regressions that did not see the row) and lets the method pick among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...api import select
from ...arrays import FloatArray, IntArray, Vector
from ...errors import InvalidParameter, require
from ...selectors import METHODS, Method, find_method
from ..signals import SIGNALS

_FOLDS = 5


@dataclass(frozen=True)
class Contender:
    """One row of a table."""

    name: str
    method: str  # who picks
    params: Mapping[str, Any] = field(default_factory=dict)  # beyond the method's defaults
    cleaned: bool = False  # whether cleanlab takes rows out first

    @property
    def entry(self) -> Method:
        """The entry of the method in the registry."""
        return find_method(self.method)

    @property
    def signal(self) -> str | None:
        """The signal of a training run that it selects by; None where it needs no training."""
        return self.method if self.method in SIGNALS else None

    @property
    def nested(self) -> bool:
        """Whether a smaller budget's picks are the first of a larger one's."""
        return self.entry.nested

    @property
    def seeded(self) -> bool:
        """Whether another seed may give other picks; the guard draws folds."""
        return self.entry.seeded or self.params.get("guard") == "auto"

    def settings(self) -> dict[str, Any]:
        """Return what determines its picks, apart from data, budget and seed."""
        return self.entry.defaults() | dict(self.params) | ({"after": "cleanlab"} if self.cleaned else {})

    def pick(
        self,
        rows: FloatArray,
        labels: IntArray,
        keep: float,
        seed: int,
        extra: Mapping[str, Any],
        chances: Callable[[], Vector],
    ) -> tuple[IntArray, dict[str, Any], bool]:
        """Return the picks in order, the parameters, and whether they are of batches.

        `extra`: further parameters, such as scores. `chances`: gives probabilities out of fold.
        """
        if not self.cleaned:
            made = select(
                rows, keep=keep, labels=labels, method=self.method, random_state=seed, **self.params, **extra
            )
            return made.indices, dict(made.params), made.info.batches is not None
        wanted = round(keep * len(rows))
        clean = _without_issues(labels, chances())
        few = min(wanted, len(clean))
        made = select(
            rows[clean], keep=few, labels=labels[clean], method=self.method, random_state=seed, **self.params
        )
        rest = np.setdiff1d(np.arange(len(rows)), clean)
        own = chances()[rest, labels[rest]]
        order = np.concatenate([clean[made.indices], rest[np.argsort(-own, kind="stable")]])
        return order[:wanted], {**made.params, "after": "cleanlab"}, False


CONTENDERS = {
    entry.name: entry
    for entry in (
        Contender("gm-matching-unguarded", "gm-matching", {"guard": "off"}),
        Contender("cleanlab+random", "random", cleaned=True),
        Contender("cleanlab+facility-location", "facility-location", cleaned=True),
        Contender("cleanlab+gm-matching", "gm-matching", {"guard": "off"}, cleaned=True),
    )
}
"""What stands in tables beside the methods of the registry."""


def find_contender(name: str, budgets: str = "proportional") -> Contender:
    """Return a row of a table by its name: of `CONTENDERS`, a method, or a method with `+guard`.

    >>> find_contender("random+guard").params, find_contender("random", "sqrt").params
    ({'guard': 'auto'}, {'budgets': 'sqrt'})
    """
    shares = {} if budgets == "proportional" else {"budgets": budgets}
    if name in CONTENDERS:
        found = CONTENDERS[name]
        return replace(found, params={**found.params, **shares})
    entry, params = find_variant(name)
    return Contender(name, entry.name, params | shares)


def find_variant(word: str) -> tuple[Method, dict[str, Any]]:
    """Return the entry of a method and its parameters, where a comparison may ask for it with the guard.

    >>> find_variant("random+guard")[1], find_variant("random")[1]
    ({'guard': 'auto'}, {})
    """
    name, plus, what = word.partition("+")
    method = find_method(name)
    if plus and (what != "guard" or "guard" not in method.parameters()):
        raise InvalidParameter(f"a method is a name, or name+guard where it takes a guard; got {word!r}")
    return method, {"guard": "auto"} if plus else {}


def compared_methods() -> tuple[str, ...]:
    """Return the names that `gmmatch compare` tries where none are given.

    Examples
    --------
    >>> "gm-matching" in compared_methods()
    True
    """
    found = [name for name, method in METHODS.items() if method.compared]
    # What the guard alone is worth: chance among the rows that it trusts.
    found.insert(found.index("random") + 1, "random+guard")
    return tuple(found)


def out_of_fold(rows: FloatArray, labels: IntArray) -> Vector:
    """Return class probabilities by logistic regressions that did not see the row."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold

    spread = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(spread > 1e-3 * spread.max(), spread, spread.max() or 1)
    found = np.zeros((len(rows), int(labels.max()) + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for train, held in KFold(_FOLDS, shuffle=True, random_state=0).split(rows):
            head = LogisticRegression(max_iter=100, tol=1e-3).fit(scaled[train], labels[train])
            found[np.ix_(held, head.classes_)] = head.predict_proba(scaled[held])
    return found


def _without_issues(labels: IntArray, chances: Vector) -> IntArray:
    """Return the rows that cleanlab finds no issue with."""
    found = require("cleanlab.filter", "cleanlab", "dev").find_label_issues(labels, chances, n_jobs=1)
    return np.flatnonzero(~np.asarray(found))
