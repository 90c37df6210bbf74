"""What a page is made from: a selection, its input, and what is known of every row of it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Labels, Mask, Vector
from ..compute import kernels
from ..compute.blocks import present_groups, row_norms
from ..compute.keys import look_at_rows, row_keys
from ..compute.reads import Sums
from ..compute.runner import run_read
from ..data import Dataset, MappedRows
from ..errors import InvalidInput
from ..facts import Evidence
from ..inputs import check_belongs, is_same
from ..location.geometric_median import group_medians
from ..matching.features import unit_rows
from ..records import Selection
from ..selectors import METHODS
from ..trust import Table, find_copies, judge, make_table
from ..validation import CheckedRows, bad_rows, check_input

MOST_CLASSES = 5_000
PARTS = {"strata", "match_to"}  # aims with targets of their own
_EPSILON = 1e-3  # of centres that have to be computed again
# Beyond these, judging all rows would take longer than a report should.
_MOST_VALUES = 1 << 27
_MOST_WORK = 2e11


@dataclass(frozen=True, eq=False)
class Measures:
    """What one pass over the rows measures."""

    usable: Mask  # rows without NaN, infinite or absurd values, that belong to a group
    distances: Vector  # distance of each row to the centre of its group; NaN where it is not usable
    sizes: IntArray  # usable rows of each group
    bias: Vector  # squared distance of each group's mean to its centre
    variance: Vector  # mean squared distance of each group's rows to their mean

    def random_objective(self, picks: IntArray) -> Vector:
        """Return the root mean square objective of random subsets with these picks of each group.

        With m of n rows drawn without replacement, the mean square is
        ``bias + variance / m * (n - m) / (n - 1)``; the groups' roots are averaged by their picks.

        `picks`: picks of each group, shape (budgets, groups); every budget has at least one.
        """
        drawn = np.maximum(picks, 1)
        left = (self.sizes - drawn) / np.maximum(self.sizes - 1, 1)
        roots = np.sqrt(self.bias + self.variance / drawn * np.maximum(left, 0.0))
        total: Vector = np.add.reduce(roots * picks, axis=1) / np.add.reduce(picks, axis=1)
        return total


def measure(rows: FloatArray, groups: IntArray, centers: Vector) -> Measures:
    """Measure all rows against the centres of their groups.

    `rows`: slices are read, and values may be NaN. `groups`: group of each row; a negative one takes no
    part. `centers`: one per group.

    Time: one pass. Memory beyond the input: O(groups * features), O(block) and 9 bytes per row.
    """

    def part(block: slice, values: FloatArray) -> tuple[Mask, Vector, IntArray, Vector]:
        group = groups[block]
        good = group >= 0
        good[bad_rows(values)] = False
        if not good.all():
            values, group = values[good], group[good]
        offsets = np.subtract(values, centers[group], dtype=np.float64)
        distances = np.full(len(good), np.nan)
        distances[good] = row_norms(offsets)
        present, member = present_groups(group, len(centers))
        return good, distances, present, kernels.group_sums(offsets, member, len(present))[0]

    parts = run_read(rows, Sums("measuring rows", part, list, list.append))
    usable, distances = (np.concatenate([found[at] for found in parts]) for at in (0, 1))
    totals = np.zeros_like(centers, dtype=np.float64)
    for *_, present, sums in parts:
        totals[present] += sums
    sizes = np.bincount(groups[usable], minlength=len(centers))
    counted = np.maximum(sizes, 1)
    squares = np.bincount(groups[usable], distances[usable] ** 2, len(centers)) / counted
    bias = np.add.reduce((totals / counted[:, None]) ** 2, axis=1)
    return Measures(usable, distances, sizes, bias, np.maximum(squares - bias, 0.0))


@dataclass(frozen=True, eq=False)
class Inputs:
    """A selection and its input, ready to be measured."""

    # The selection, what it was made from, and the rows as it compared them.
    selection: Selection
    source: Dataset
    rows: FloatArray
    # Sorted labels, and the class of each row; one class of all rows where there are no labels.
    classes: Labels
    codes: IntArray
    labelled: bool  # whether there are labels
    # Group that each row competed in (-1: none), and the centre of each.
    groups: IntArray
    centers: Vector
    own_centers: bool  # whether the centres are those of the selection
    same_input: bool  # whether the input has the fingerprint that the selection knows

    @cached_property
    def measures(self) -> Measures:
        """What one pass over the rows measures."""
        return measure(self.rows, self.groups, self.centers)

    @cached_property
    def usable(self) -> IntArray:
        """Rows that take part."""
        return np.flatnonzero(self.measures.usable)

    @property
    def picked_groups(self) -> IntArray:
        """Group of each pick, in pick order."""
        return self.groups[self.selection.indices]

    @cached_property
    def listed(self) -> IntArray:
        """The classes that the page names: all, or the largest ones, in their order."""
        if len(self.classes) <= MOST_CLASSES:
            return np.arange(len(self.classes))
        sizes = np.bincount(self.codes, minlength=len(self.classes))
        return np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLASSES])

    def listed_codes(self, codes: IntArray) -> list[int]:
        """Return the position of each class among those listed; -1 where it is none of them."""
        places = np.full(len(self.classes) + 1, -1)  # the last is that of no class
        places[self.listed] = np.arange(len(self.listed))
        return list(map(int, places[codes]))

    @property
    def scores_are_objectives(self) -> bool:
        """Whether the picks' scores tell the objective of every prefix."""
        method = METHODS.get(self.selection.method)
        known = method is not None and method.selector.scores_are_objectives
        return known and self.own_centers and (self.selection.info.chains or 1) == 1

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
) -> Inputs:
    """Check that a selection and an input belong together, and divide the rows as the selection did.

    Raises `InvalidInput`: another number of rows or features, or no labels where the selection had some;
    without `any_input` also another fingerprint.
    """
    if checked is None:
        checked = check_input(source.numbers(), source.labels, name=source.name, finite=False)
    if checked.digest is None:
        checked = replace(checked, digest=look_at_rows(checked.rows)[2])
    check_belongs(selection, source)
    rows: Any = checked.rows
    if selection.params.get("normalize") == "unit":
        rows = MappedRows(rows, unit_rows)
    labelled, groups = checked.classes is not None, np.zeros(len(rows), np.int64)
    classes = np.zeros(1, np.int64) if checked.classes is None else checked.classes
    codes = groups if checked.codes is None else checked.codes
    if selection.labels is not None and selection.params.get("by_class", True):
        present, known = np.unique(codes[selection.indices]), np.unique(selection.labels)
        if len(known) != len(present):
            raise InvalidInput(
                f"the picks have {len(known)} labels in the selection and {len(present)} in the input;"
                " expected the labels that the selection was made with"
            )
        place = np.full(len(classes), -1, np.int64)
        place[present] = np.arange(len(present))
        groups = place[codes]
    groups = np.where(np.isin(np.arange(len(rows)), source.bad_rows), -1, groups)  # whatever their numbers
    # Strata and the parts of a reference have other centres than the groups that are shown.
    centers = None if PARTS & set(selection.info.aims or ()) else selection.centers
    own_centers, n_groups = centers is not None, int(groups.max()) + 1
    if centers is None:
        groups[~look_at_rows(rows)[0]] = -1
        centers = np.stack([median.point for median in group_medians(rows, groups, n_groups, _EPSILON)])
    if centers.shape != (n_groups, rows.shape[1]):
        raise InvalidInput(
            f"the selection was made from rows of {centers.shape[1]} numbers in {len(centers)} groups, but"
            f" {source.name} has rows of {rows.shape[1]} in {n_groups}"
        )
    same = is_same(selection, source, checked, any_input)
    return Inputs(selection, source, rows, classes, codes, labelled, groups, centers, own_centers, same)


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What speaks against the rows that were judged, most suspicious first."""

    table: Table  # scores, suggestions and groups of duplicates, by the numbers of the rows in the input
    tiers: npt.NDArray[np.int8]
    reasons: Labels
    labels_judged: bool  # whether labels could be judged, or distances alone
    estimate: Vector | None  # as in `Evidence`


def worth_judging(n_rows: int, n_features: int, n_classes: int) -> bool:
    """Return True if judging so many rows is quick enough for a report."""
    work = float(n_rows) * n_features * (n_features + n_classes)
    return n_rows * n_features <= _MOST_VALUES and work <= _MOST_WORK


def judge_all(inputs: Inputs, seed: int) -> Suspicion | None:
    """Return the evidence about all usable rows, or None where judging them would take too long."""
    rows, usable, evidence = inputs.rows, inputs.usable, inputs.selection.evidence
    if evidence is not None:
        codes = np.where(inputs.measures.usable, inputs.codes, -1)
        table = make_table(evidence, codes, find_copies(rows, row_keys(rows, seed), codes >= 0))
        return _in_order(table, evidence, usable, codes, inputs)
    worth = worth_judging(len(usable), rows.shape[1], len(inputs.classes))
    return judge_rows(inputs, rows[usable], usable, seed) if worth else None


def judge_rows(inputs: Inputs, rows: FloatArray, numbers: IntArray, seed: int) -> Suspicion:
    """Judge rows that are in memory; `numbers`: theirs in the input. `seed`: of the folds and samples."""
    codes, classes, keys = inputs.codes[numbers], inputs.classes, row_keys(rows, seed)
    own, present = CheckedRows(rows, classes, codes).judged()
    own = np.zeros(len(rows), np.int64) if own is None else own
    evidence = judge(rows, own, len(present), seed, keys=keys).evidence(own).among(present, len(classes))
    table = make_table(evidence, codes, find_copies(rows, keys, own >= 0), numbers)
    table = replace(table, keep=numbers[table.keep])
    return _in_order(table, evidence, np.arange(len(rows)), codes, inputs)


def _in_order(
    table: Table, evidence: Evidence, judged: IntArray, codes: IntArray, inputs: Inputs
) -> Suspicion:
    order = table.order(judged)
    classes = inputs.classes if inputs.labelled else np.array([_OtherRows()], object)
    reasons = table.reasons(codes, classes)[order]
    table = replace(table, **{name: values[order] for name, values in vars(table).items()})
    return Suspicion(table, evidence.tiers[order], reasons, evidence.labels_judged, evidence.estimate)


class _OtherRows:
    """What sentences call the class of all rows where there are no labels."""

    def __repr__(self) -> str:
        return "the other rows"
