"""One suite that every method must pass: a method is one row of `CASES`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import gmmatch
from gmmatch.errors import InvalidInput, InvalidParameter, UnknownParameter
from gmmatch.matching.budgets import class_budgets
from gmmatch.selectors import METHODS, find_method
from gmmatch.selectors.ranking import Ranking

# Odd numbers: of an even number of rows, two share the median distance.
SIZES = {"ant": 151, "bee": 99, "cat": 51}
N_ROWS = sum(SIZES.values())


def _rows() -> np.ndarray:
    """Rows without ties whose values float32 holds exactly, around three centres."""
    rng = np.random.default_rng(7)
    centers = np.repeat(rng.normal(size=(3, 12)) * 3, list(SIZES.values()), axis=0)
    return (centers + rng.normal(size=(N_ROWS, 12))).astype(np.float32)[ORDER]


ORDER = np.random.default_rng(8).permutation(N_ROWS)
LABELS = np.repeat(list(SIZES), list(SIZES.values()))[ORDER]
ROWS = _rows()
SCORES = np.random.default_rng(9).random(N_ROWS)
INFLUENCE = np.random.default_rng(10).normal(size=(N_ROWS, 5))


@dataclass(frozen=True)
class Case:
    """What one method is called with; the registry says what it promises.

    Attributes
    ----------
    params
        Parameters beside the common ones.
    per_row
        Parameters with one value per row of the input. A method with a training run is given none; the
        estimator alone, which has no training run, is.
    first_of_equals
        The smallest row numbers win among rows that are all alike.
    """

    params: dict[str, Any] = field(default_factory=dict)
    per_row: dict[str, np.ndarray] = field(default_factory=dict)
    first_of_equals: bool = True


_TRAINED = {"train_config": {"epochs": 2, "batch_size": 128}}

CASES = {
    "gm-matching": Case({"guard": "off"}),
    "gm-matching-paper": Case(),
    "gm-matching-authors": Case(),
    "herding": Case(),
    "random": Case(first_of_equals=False),
    "easy": Case(),
    "hard": Case(),
    "moderate": Case(),
    "self-supervised": Case(),
    "k-center": Case(),
    "facility-location": Case(),
    "stratified": Case(first_of_equals=False),
    "small-loss": Case(),
    "top-scores": Case(per_row={"scores": SCORES}),
    "forgetting": Case(_TRAINED, {"scores": SCORES}, first_of_equals=False),
    "el2n": Case(_TRAINED, {"scores": SCORES}, first_of_equals=False),
    "grand": Case(_TRAINED, {"scores": SCORES}, first_of_equals=False),
    "optimization": Case(_TRAINED, {"influence": INFLUENCE}, first_of_equals=False),
}


def arguments(method: str, rows: np.ndarray | slice = slice(None)) -> dict[str, Any]:
    """Return what `gmmatch.select` is called with, for some of the rows."""
    case = CASES[method]
    if METHODS[method].needs_training:
        return case.params
    return case.params | {name: values[rows] for name, values in case.per_row.items()}


def estimator_arguments(method: str) -> dict[str, Any]:
    """Return what the estimator is called with."""
    return CASES[method].per_row if METHODS[method].needs_training else arguments(method)


def as_matched(method: str) -> np.ndarray:
    """Return the rows as the method compares them; unit rows are rounded to the precision of the rows."""
    rows = ROWS.astype(np.float64)
    if METHODS[method].defaults().get("normalize") == "unit":
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    return rows


every_method = pytest.mark.parametrize("method", CASES)
every_method_of_any_center = pytest.mark.parametrize(
    "method", [name for name in CASES if "center" not in find_method(name).fixed]
)


def methods_that(promise: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("method", [name for name in CASES if getattr(METHODS[name], promise)])


def methods_and_labels(promise: str | None = None) -> pytest.MarkDecorator:
    """Every method that makes the promise, with labels, and without where it can do without."""
    cases = [
        pytest.param(name, labels, id=f"{name}-{'no labels' if labels is None else 'labels'}")
        for name in CASES
        for labels in (None, LABELS)
        if (labels is not None or not METHODS[name].needs_labels)
        and (promise is None or getattr(METHODS[name], promise))
    ]
    return pytest.mark.parametrize(("method", "labels"), cases)


without_training = pytest.mark.parametrize(
    "method", [name for name in CASES if not METHODS[name].needs_training]
)

without_labels = pytest.mark.parametrize("method", [name for name in CASES if not METHODS[name].needs_labels])


def run(method: str, rows: Any = ROWS, labels: Any = LABELS, keep: Any = 0.2, **params: Any) -> Any:
    return gmmatch.select(rows, keep=keep, labels=labels, method=method, **arguments(method), **params)


def test_every_registered_method_has_a_row_here() -> None:
    assert set(CASES) == set(METHODS)


def test_every_registered_method_is_described() -> None:
    for entry in METHODS.values():
        assert all([entry.keeps, entry.needs, entry.cost, entry.source])


@methods_that("needs_training")
def test_a_training_run_without_labels_is_refused(method: str) -> None:
    assert method in gmmatch.methods()
    with pytest.raises(InvalidInput, match=f"method '{method}' needs labels, one per row"):
        run(method, labels=None)
    with pytest.raises(InvalidInput, match=r"at least two classes; got one"):
        run(method, labels=np.full(N_ROWS, "ant"))


@methods_and_labels()
@pytest.mark.parametrize("keep", [3, 0.2, 0.33, 300, 1.0])
def test_picks_are_exactly_k_unique_rows(method: str, keep: float | int, labels: Any) -> None:
    k = keep if isinstance(keep, int) else round(keep * N_ROWS)
    selection = run(method, labels=labels, keep=keep)
    assert selection.indices.dtype == np.int64
    assert len(selection) == len(np.unique(selection.indices)) == k
    assert selection.indices.min() >= 0
    assert selection.indices.max() < N_ROWS
    assert selection.mask().sum() == k


@every_method
def test_fields_are_of_one_length_and_finite_where_they_are_known(method: str) -> None:
    selection = run(method)
    known = {"scores": method != "random", "distances": selection.centers is not None}
    for name, expected in known.items():
        values = getattr(selection, name)
        assert values.shape == selection.indices.shape
        assert values.dtype == np.float64
        assert np.isfinite(values).all() if expected else np.isnan(values).all()
    assert np.isfinite(selection.objective) == (selection.info.objective is not None)
    assert ("objective" in repr(selection)) == np.isfinite(selection.objective)
    assert selection.method == method
    assert selection.n_rows == N_ROWS
    assert selection.random_state == 0
    np.testing.assert_array_equal(selection.labels, LABELS[selection.indices])


@every_method
def test_distances_and_objective_refer_to_the_class_centers(method: str) -> None:
    entry = find_method(method)
    asked = {} if entry.defaults()["center"] is not None else {"center": "mean"}
    estimator = entry.build(keep=0.2, **asked, **estimator_arguments(method)).fit(ROWS, LABELS)
    selection = estimator.selection_
    rows, gaps = as_matched(method), []
    for label, center in zip(estimator.classes_, estimator.centers_, strict=True):
        mine = selection.labels == label
        kept = rows[selection.indices[mine]]
        np.testing.assert_allclose(
            selection.distances[mine], np.linalg.norm(kept - center, axis=1), rtol=1e-12
        )
        gaps.append((np.linalg.norm(kept.mean(axis=0) - center), mine.sum()))
    values, weights = zip(*gaps, strict=True)
    if issubclass(entry.selector, Ranking):  # which would take another look at the picks
        assert np.isnan(selection.objective)
        return
    assert selection.objective == pytest.approx(np.average(values, weights=weights), rel=1e-9)


@every_method
def test_the_budget_is_shared_by_class_size_in_every_prefix(method: str) -> None:
    labels = run(method).labels
    shares = np.array(list(SIZES.values())) / N_ROWS
    counts = np.cumsum([[label == name for name in SIZES] for label in labels], axis=0)
    np.testing.assert_array_equal(counts[-1], class_budgets(list(SIZES.values()), 60))
    assert np.abs(counts - shares * np.arange(1, 61)[:, None]).max() <= 1.5


@without_labels
def test_without_classes_labels_do_not_change_the_picks(method: str) -> None:
    together = run(method, by_class=False)
    np.testing.assert_array_equal(together.indices, run(method, labels=None).indices)
    np.testing.assert_array_equal(together.labels, LABELS[together.indices])


@every_method
def test_the_same_seed_gives_the_same_rows(method: str) -> None:
    first, second = run(method, random_state=5), run(method, random_state=5)
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.fingerprint == second.fingerprint


@methods_and_labels()
def test_threads_do_not_change_the_rows(method: str, labels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        with threadpool_limits(threads):
            found.append(run(method, labels=labels))
    np.testing.assert_array_equal(found[0].indices, found[1].indices)
    np.testing.assert_array_equal(found[0].distances, found[1].distances)


@methods_and_labels("nested")
def test_a_smaller_budget_is_a_prefix_of_a_larger_one(method: str, labels: Any) -> None:
    many = run(method, labels=labels, keep=0.45).indices
    for keep in (3, 29, 0.1):
        few = run(method, labels=labels, keep=keep).indices
        np.testing.assert_array_equal(few, many[: len(few)])


@without_training
@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ("sqrt", [25, 20, 15]),
        ("equal", [20, 20, 20]),
        ({"ant": 20, "bee": 30, "cat": 10}, [20, 30, 10]),
        ({"ant": 1.0, "bee": 2.5, "cat": 1}, [13, 34, 13]),
    ],
)
def test_classes_share_the_budget_as_told(method: str, budgets: Any, expected: list[int]) -> None:
    selection = run(method, keep=60, budgets=budgets)
    assert [int((selection.labels == name).sum()) for name in SIZES] == expected
    assert selection.params["budgets"] == budgets


@every_method
def test_budgets_that_mean_nothing_are_refused(method: str) -> None:
    with pytest.raises(InvalidParameter, match=r"budgets must be 'proportional', 'sqrt' or 'equal'"):
        run(method, budgets="log")


@without_training
def test_budgets_for_other_classes_are_refused(method: str) -> None:
    with pytest.raises(InvalidInput, match=r"budgets has no class 'cat'; expected an entry for each"):
        run(method, budgets={"ant": 1, "bee": 2})
    with pytest.raises(InvalidInput, match=r"budgets names classes, and rows are not divided by class"):
        run(method, by_class=False, budgets={"ant": 60})


@every_method
def test_another_seed_matters_only_where_the_registry_says_so(method: str) -> None:
    if not METHODS[method].seeded:
        np.testing.assert_array_equal(run(method).indices, run(method, random_state=1).indices)


@methods_that("equivariant")
@pytest.mark.parametrize("labels", [None, LABELS])
def test_the_order_of_the_rows_does_not_matter(method: str, labels: Any) -> None:
    order = np.random.default_rng(1).permutation(N_ROWS)
    shuffled = gmmatch.select(
        ROWS[order],
        keep=0.2,
        labels=None if labels is None else labels[order],
        method=method,
        **arguments(method, order),
    )
    np.testing.assert_array_equal(order[shuffled.indices], run(method, labels=labels).indices)


@every_method
def test_the_kind_of_input_does_not_matter(method: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    np.save(tmp_path / "rows.npy", ROWS)
    forms = {
        "float64": ROWS.astype(np.float64),
        "list": ROWS.tolist(),
        "memory map": np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "Fortran order": np.asfortranarray(ROWS),
        "every second of twice the rows": np.repeat(ROWS, 2, axis=0)[::2],
        "torch": torch.from_numpy(ROWS.copy()),
        "torch with gradients": torch.from_numpy(ROWS.copy()).requires_grad_(),
        "big endian": ROWS.astype(">f4"),
    }
    expected = run(method).indices
    for form, rows in forms.items():
        np.testing.assert_array_equal(run(method, rows).indices, expected, err_msg=form)
    for labels in (LABELS.tolist(), LABELS.astype(object), np.searchsorted(list(SIZES), LABELS)):
        np.testing.assert_array_equal(run(method, labels=labels).indices, expected)


@every_method
def test_a_count_and_a_fraction_of_any_type_mean_the_same(method: str) -> None:
    expected = run(method, keep=60).indices
    for keep in (0.2, np.int64(60), np.float64(0.2), np.float32(0.2)):
        np.testing.assert_array_equal(run(method, keep=keep).indices, expected)


@every_method
def test_the_input_is_not_changed(method: str) -> None:
    rows = ROWS.copy()
    rows.flags.writeable = False
    run(method, rows)
    np.testing.assert_array_equal(rows, ROWS)


@methods_that("needs_training")
@pytest.mark.parametrize("shape", [(2, 1), (7, 1)])
def test_the_smallest_inputs_of_a_training_run_work(method: str, shape: tuple[int, int]) -> None:
    rows = np.arange(np.prod(shape), dtype=float).reshape(shape)
    labels = np.arange(shape[0]) % 2
    params = CASES[method].params
    assert len(gmmatch.select(rows, keep=1, labels=labels, method=method, by_class=False, **params)) == 1
    assert len(gmmatch.select(rows, keep=2, labels=labels, method=method, **params)) == 2


@without_labels
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 1), (7, 1)])
def test_the_smallest_inputs_work(method: str, shape: tuple[int, int]) -> None:
    rows = np.arange(np.prod(shape), dtype=float).reshape(shape)
    given = arguments(method, np.arange(shape[0]))
    assert len(gmmatch.select(rows, keep=1, method=method, **given)) == 1
    everything = gmmatch.select(rows, keep=1.0, method=method, **given)
    assert sorted(everything.indices) == list(range(shape[0]))


@every_method
def test_rows_that_are_all_alike_give_unique_picks(method: str) -> None:
    case, trained = CASES[method], METHODS[method].needs_training
    constant = {} if trained else {name: np.zeros(50) for name in case.per_row}
    labels = np.arange(50) % 2 if METHODS[method].needs_labels else None
    selection = gmmatch.select(
        np.full((50, 3), 0.1), keep=20, labels=labels, method=method, **case.params, **constant
    )
    assert len(np.unique(selection.indices)) == 20
    assert np.isfinite(selection.scores).all() or method == "random"
    if case.first_of_equals:
        np.testing.assert_array_equal(selection.indices, np.arange(20))


@every_method
def test_a_row_far_away_does_no_harm(method: str) -> None:
    rows = ROWS.copy()
    rows[3] = 1e20
    selection = run(method, rows)
    assert len(np.unique(selection.indices)) == 60
    assert np.isfinite(selection.scores).all() or method == "random"


@every_method
def test_a_saved_selection_comes_back_the_same(method: str, tmp_path: Path) -> None:
    selection = run(method)
    selection.save(tmp_path / "kept.parquet")
    loaded = gmmatch.load_selection(tmp_path / "kept.parquet")
    for name in ("indices", "scores", "distances", "labels"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(selection, name))
    np.testing.assert_equal(loaded.objective, selection.objective)
    for name in ("info", "method", "n_rows", "random_state", "fingerprint", "epsilon"):
        assert getattr(loaded, name) == getattr(selection, name)
    assert set(loaded.params) == set(selection.params)


@every_method
def test_it_is_an_estimator_that_can_be_cloned(method: str) -> None:
    estimator = find_method(method).build(keep=0.3, **estimator_arguments(method))
    twin = clone(estimator)
    assert twin.get_params().keys() == estimator.get_params().keys()
    kept_rows, kept_labels = twin.fit_resample(ROWS, LABELS)
    np.testing.assert_array_equal(kept_rows, ROWS[twin.sample_indices_])
    np.testing.assert_array_equal(kept_labels, LABELS[twin.sample_indices_])
    assert twin.n_features_in_ == ROWS.shape[1]
    assert twin.centers_ is None or len(twin.centers_) == len(SIZES)


@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_values_that_are_not_finite_are_refused(method: str, bad: float) -> None:
    rows = ROWS.astype(np.float64)
    rows[17, 2] = bad
    with pytest.raises(InvalidInput, match=r"first: 17"):
        run(method, rows)


@every_method
def test_labels_of_another_length_are_refused(method: str) -> None:
    with pytest.raises(InvalidInput, match=r"300 entries for 301 rows"):
        run(method, labels=LABELS[1:])


@every_method
@pytest.mark.parametrize("keep", [0, 0.0, -1, 1.5, float("nan"), "ten", True, None])
def test_a_keep_that_means_nothing_is_refused(method: str, keep: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"keep must be a fraction"):
        run(method, keep=keep)


@every_method
def test_a_keep_beyond_the_rows_is_refused(method: str) -> None:
    with pytest.raises(InvalidInput, match=r"only 301"):
        run(method, keep=302)


@every_method
def test_a_budget_that_leaves_a_class_without_rows_is_refused(method: str) -> None:
    with pytest.raises(InvalidInput, match=r"2 rows for 3 classes"):
        run(method, keep=2)


@every_method
def test_an_unknown_parameter_is_refused_by_name(method: str) -> None:
    with pytest.raises(UnknownParameter, match=r"no parameter 'colour'"):
        run(method, colour="red")


@every_method_of_any_center
def test_an_unknown_center_is_refused(method: str) -> None:
    with pytest.raises(InvalidParameter, match=r"center must be .*got 'middle'"):
        run(method, center="middle")


@every_method_of_any_center
@pytest.mark.parametrize("center", ["mean", "geometric-median", "coordinate-median"])
def test_every_center_can_be_named(method: str, center: str) -> None:
    estimator = find_method(method).build(keep=0.2, center=center, **estimator_arguments(method))
    centers = estimator.fit(ROWS, LABELS).centers_
    for name, found in zip(SIZES, centers, strict=True):
        mine = as_matched(method)[name == LABELS]
        if center == "geometric-median":
            expected = gmmatch.geometric_median(mine).point
        else:
            expected = mine.mean(axis=0) if center == "mean" else np.median(mine, axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@every_method_of_any_center
def test_a_center_can_be_given_for_each_class(method: str) -> None:
    points = {name: np.full(ROWS.shape[1], place) for place, name in enumerate(SIZES)}
    estimator = find_method(method).build(keep=0.2, center=points, **estimator_arguments(method))
    np.testing.assert_array_equal(estimator.fit(ROWS, LABELS).centers_, np.stack(list(points.values())))
    with pytest.raises(InvalidInput, match=r"no entry for class 'cat'"):
        clone(estimator).set_params(center={"ant": points["ant"], "bee": points["bee"]}).fit(ROWS, LABELS)
