"""Gross contamination: exact shares, and rows that stand where they are said to stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmmatch.corrupt import CONTAMINATION_KINDS, contaminate
from gmmatch.errors import InvalidInput, InvalidParameter, UnknownParameter


def clean(rows: int = 1000, features: int = 16, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(7)
    return (3 + rng.normal(size=(rows, features)) * np.linspace(1, 2, features)).astype(dtype)


def radius(X: np.ndarray) -> float:
    return float(np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 60),
    features=st.integers(1, 5),
    share=st.floats(0, 0.5, exclude_max=True),
    kind=st.sampled_from(CONTAMINATION_KINDS),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    seed=st.integers(0, 2**32),
)
def test_exactly_the_rounded_share_changes_and_never_half(rows, features, share, kind, dtype, seed):
    X = clean(rows, features, dtype)
    before = X.copy()
    own = {"labels": np.arange(rows) % 2} if kind == "other-class" and rows > 1 else {}
    if kind == "other-class" and rows == 1:
        return
    bad, mask = contaminate(X, share, kind, seed, **own)
    again, _ = contaminate(X, share, kind, np.random.default_rng(seed), **own)
    assert mask.sum() == min(int(np.floor(share * rows + 0.5)), (rows - 1) // 2)
    assert bad.dtype == dtype
    np.testing.assert_array_equal((bad != X).any(axis=1), mask)
    np.testing.assert_array_equal(bad, again)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(("distance", "spread"), [(5, 0.1), (20, 2.0)])
def test_a_far_cluster_stands_together_at_its_distance(distance, spread):
    X = clean()
    bad, mask = contaminate(X, 0.45, "far-cluster", distance=distance, spread=spread)
    placed = bad[mask]
    away = np.linalg.norm(placed.mean(axis=0) - X.mean(axis=0)) / radius(X)
    assert away == pytest.approx(distance, rel=0.02)
    assert radius(placed) / radius(X) == pytest.approx(spread, rel=0.05)


def test_outliers_stand_at_their_distance_in_all_directions():
    X = clean(4000, 3)
    bad, mask = contaminate(X, 0.45, "outliers", distance=10, spread=0.2)
    away = (bad[mask] - X.mean(axis=0)) / radius(X)
    lengths = np.linalg.norm(away, axis=1)
    assert 8 <= lengths.min() < 8.1
    assert 11.9 < lengths.max() <= 12
    units = away / lengths[:, None]
    np.testing.assert_allclose(units.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(units.T @ units / mask.sum(), np.eye(3) / 3, atol=0.03)


def test_rows_of_another_class_are_copied():
    X, labels = clean(600), np.repeat(["a", "b", "c"], [100, 200, 300])
    bad, mask = contaminate(X, 0.4, "other-class", labels=labels)
    source = {row.tobytes(): label for row, label in zip(X, labels, strict=True)}
    origin = np.array([source[row.tobytes()] for row in bad[mask]])
    assert (origin != labels[mask]).all()
    # Rows of class a are replaced by b and c as often as those occur: 2 to 3.
    from_a = origin[labels[mask] == "a"]
    assert (from_a == "b").mean() == pytest.approx(0.4, abs=0.2)


def test_rows_equal_to_the_other_class_are_drawn_again_or_refused():
    X = np.array([[1.0], [3.0], [1.0], [2.0]] * 20)
    labels = np.array([0, 0, 1, 1] * 20)
    bad, mask = contaminate(X, 0.4, "other-class", labels=labels)
    np.testing.assert_array_equal((bad != X)[:, 0], mask)
    with pytest.raises(InvalidInput, match="a copy would not change it"):
        contaminate(np.ones((10, 2)), 0.4, "other-class", labels=np.arange(10) % 2)


def test_flipped_rows_are_the_negative():
    X = clean()
    bad, mask = contaminate(X, 0.3, "sign-flip")
    np.testing.assert_array_equal(bad[mask], -X[mask])
    X[:800] = 0
    with pytest.raises(InvalidInput, match="share asks for 300 flipped rows, but only 200"):
        contaminate(X, 0.3, "sign-flip")


@pytest.mark.parametrize("share", [0.01, 0.2, 0.45])
def test_the_adversary_moves_the_mean_exactly_along_the_widest_direction(share):
    X = clean()
    bad, mask = contaminate(X, share, "adversary", distance=2)
    moved = bad.mean(axis=0) - X.mean(axis=0)
    assert np.linalg.norm(moved) == pytest.approx(2 * radius(X), rel=1e-9)
    widest = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][0]
    assert abs(moved @ widest) / np.linalg.norm(moved) > 0.9
    # It takes the rows that hinder it most.
    along = (X - X.mean(axis=0)) @ moved
    assert along[mask].max() <= along[~mask].min()


def test_whole_numbers_become_floats_and_equal_rows_can_be_contaminated():
    bad, mask = contaminate(np.ones((10, 3), dtype=int), 0.2)
    assert bad.dtype == np.float64
    np.testing.assert_array_equal((bad != 1).any(axis=1), mask)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"share": 0.5}, InvalidParameter, r"\[0, 0.5\)"),
        ({"kind": "far-clusters"}, InvalidParameter, "did you mean 'far-cluster'"),
        ({"kind": "other-class"}, InvalidParameter, "needs the parameter 'labels'"),
        ({"kind": "other-class", "labels": np.zeros(1000)}, InvalidInput, "one class only"),
        ({"kind": "other-class", "labels": [0, 1]}, InvalidInput, "2 entries for 1000 rows"),
        ({"kind": "sign-flip", "distance": 3}, UnknownParameter, "has no parameter 'distance'"),
        ({"distance": -1}, InvalidParameter, "distance must be a finite number above 0"),
        ({"spread": np.inf}, InvalidParameter, "spread must be a finite number above 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(parameters, error, message):
    with pytest.raises(error, match=message):
        contaminate(clean(), **parameters)
