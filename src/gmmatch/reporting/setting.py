"""What a report is made of: a selection, checked against the input that it was made from."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Vector
from ..compute.keys import look_at_rows
from ..data import Dataset, MappedRows
from ..errors import InvalidInput
from ..location.geometric_median import group_medians
from ..matching.features import unit_rows
from ..records import Selection
from ..selectors import METHODS
from ..validation import CheckedRows, check_input

_EPSILON = 1e-3  # of centres that have to be found again


@dataclass(frozen=True, eq=False)
class Setting:
    """A selection and its input, ready to be measured."""

    # The selection, the rows as it compared them, and their ids.
    selection: Selection
    rows: FloatArray
    ids: npt.NDArray[Any] | None
    # Sorted labels, and the class of each row; one class of all rows where there are no labels.
    classes: npt.NDArray[Any]
    codes: IntArray
    labelled: bool  # whether there are labels
    # Group that each row competed in (-1: none), and the centre of each.
    groups: IntArray
    centers: Vector
    own_centers: bool  # whether the centres are those of the selection
    same_input: bool  # whether the input has the fingerprint that the selection knows
    usable_labels: npt.NDArray[np.bool_]  # rows that have a label

    @property
    def picked_groups(self) -> IntArray:
        """Group of each pick, in pick order."""
        return self.groups[self.selection.indices]

    @property
    def scores_are_objectives(self) -> bool:
        """Whether the picks' scores tell the objective of every prefix."""
        method = METHODS.get(self.selection.method)
        if method is None or not self.own_centers:
            return False
        return method.selector.scores_are_objectives and (self.selection.info.chains or 1) == 1

    @property
    def prefixes_hold(self) -> bool:
        """Whether the first k picks are what a budget of k keeps.

        Clusters, which rows without labels are divided into, and batches depend on the budget.
        """
        selection = self.selection
        method = METHODS.get(selection.method)
        asked = selection.params.get("clusters", selection.params.get("cells", "off"))  # as 0.2 called it
        clustered = selection.labels is None and asked not in ("off", False)
        return method is not None and method.nested and selection.info.batches is None and not clustered


def prepare(
    selection: Selection, source: Dataset, checked: CheckedRows | None = None, any_input: bool = True
) -> Setting:
    """Check that a selection and an input belong together, and divide the rows as the selection did.

    Raises `InvalidInput`: another number of rows or features, or no labels where the selection had some;
    without `any_input` also another fingerprint.
    """
    if checked is None:
        checked = check_input(source.rows, source.labels, name=source.name, finite=False)
    if checked.digest is None:
        checked = replace(checked, digest=look_at_rows(checked.rows)[2])
    rows: Any = checked.rows
    if len(rows) != selection.n_rows:
        raise InvalidInput(
            f"the selection was made from {selection.n_rows} rows, but {source.name} has {len(rows)}"
        )
    if selection.labels is not None and source.labels is None:
        raise InvalidInput(
            f"the selection was made with labels, and {source.name} has none; name them: labels=..."
            " (in Python: labels)"
        )
    labelled = checked.classes is not None
    classes = np.zeros(1, np.int64) if checked.classes is None else checked.classes
    codes = np.zeros(len(rows), np.int64) if checked.codes is None else checked.codes
    if selection.params.get("normalize") == "unit":
        rows = MappedRows(rows, unit_rows)
    by_class = selection.labels is not None and selection.params.get("by_class", True)
    groups = _groups(selection, classes, codes) if by_class else np.zeros(len(rows), np.int64)
    centers, groups = _centers(selection), groups.copy()
    groups[source.bad_rows] = -1  # they take no part, however well their numbers fit
    if centers is None:
        groups[~look_at_rows(rows)[0]] = -1
        medians = group_medians(rows, groups, int(groups.max()) + 1, _EPSILON)
        centers = np.stack([median.point for median in medians])
    if centers.shape != (int(groups.max()) + 1, rows.shape[1]):
        raise InvalidInput(
            f"the selection was made from rows of {centers.shape[1]} numbers in {len(centers)} groups, but"
            f" {source.name} has rows of {rows.shape[1]} in {int(groups.max()) + 1}"
        )
    # Labels may be named for a selection that was made without any.
    known = checked if selection.labels is not None or not labelled else replace(checked, codes=None)
    same = selection.fingerprint in ("", known.fingerprint)
    if not (same or any_input):
        shuffled = list(source.files) != sorted(source.files)
        before = " (versions before 0.3 read its files in the order of their letters)" if shuffled else ""
        raise InvalidInput(
            f"{source.name}, or its labels, are not what the selection was made from: they have the"
            f" fingerprint {known.fingerprint}, the selection has {selection.fingerprint}{before};"
            " force=True goes on"
        )
    return Setting(
        selection=selection,
        rows=rows,
        ids=source.ids,
        classes=classes,
        codes=codes,
        labelled=labelled,
        groups=groups,
        centers=centers,
        own_centers=selection.centers is not None,
        same_input=same,
        usable_labels=~np.isin(np.arange(len(rows)), source.bad_rows),
    )


def _centers(selection: Selection) -> npt.NDArray[np.float64] | None:
    """Return the centres of the groups that are shown; strata and the parts of a reference have others."""
    by_parts = {"strata", "match_to"} & set(selection.info.aims or ())
    return None if by_parts else selection.centers


def _groups(selection: Selection, classes: npt.NDArray[Any], codes: IntArray) -> IntArray:
    """Return the group of each row: its class's place among the classes that have picks."""
    present = np.unique(codes[selection.indices])
    if selection.labels is not None and len(np.unique(selection.labels)) != len(present):
        raise InvalidInput(
            f"the picks have {len(np.unique(selection.labels))} labels in the selection and"
            f" {len(present)} in the input; expected the labels that the selection was made with"
        )
    place = np.full(len(classes), -1, np.int64)
    place[present] = np.arange(len(present))
    return place[codes]


def shell_command(selection: Selection, source: str, labelled: bool) -> str:
    """Return a command that makes the same selection.

    >>> import numpy as np, gmmatch
    >>> selection = gmmatch.select(np.eye(4), keep=2, random_state=7)
    >>> shell_command(selection, "my rows.npy", labelled=False)
    "gmmatch select 'my rows.npy' --keep 2 --seed 7"
    """
    words = ["gmmatch", "select", source, "--keep", str(len(selection))]
    if labelled:
        words += ["--labels", "LABELS"]
    if selection.method != "gm-matching":
        words += ["--method", selection.method]
    for name, value in _changed(selection).items():
        if name == "guard":
            words += ["--guard", str(value)]
        elif isinstance(value, (str, int, float)) and not str(value).startswith("array of shape"):
            words += ["--param", f"{name}={value}"]
        elif name == "scores":
            words += ["--scores", "SCORES.npy"]
    if selection.random_state is not None:
        words += ["--seed", str(selection.random_state)]
    return shlex.join(words)


def python_call(selection: Selection, labelled: bool, bad_rows: bool = False) -> str:
    """Return a call that makes the same selection of rows `X` with labels `y`.

    `bad_rows`: whether some rows take no part.

    >>> import numpy as np, gmmatch
    >>> python_call(gmmatch.select(np.eye(4), keep=2), labelled=True)
    'gmmatch.select(X, y, keep=2, random_state=0)'
    """
    data = ["X", *(["y"] if labelled else [])]
    words = [f"gmmatch.open({', '.join(data)}, on_bad_rows='drop')"] if bad_rows else data
    words.append(f"keep={len(selection)}")
    if selection.method != "gm-matching":
        words.append(f"method={selection.method!r}")
    for name, value in _changed(selection).items():
        simple = isinstance(value, (str, int, float, dict)) and not str(value).startswith("array of shape")
        words.append(f"{name}={value!r}" if simple else f"{name}={name}")
    words.append(f"random_state={selection.random_state}")
    return f"gmmatch.select({', '.join(words)})"


def _changed(selection: Selection) -> Mapping[str, Any]:
    """Return the parameters that are not the method's defaults."""
    method = METHODS.get(selection.method)
    if method is None:
        return {}
    defaults = method.selector.defaults()
    return {
        name: value
        for name, value in selection.params.items()
        if name not in ("keep", "random_state", *method.fixed)
        and not (isinstance(value, type(defaults.get(name))) and value == defaults.get(name))
    }
