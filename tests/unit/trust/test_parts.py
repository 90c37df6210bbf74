"""The parts of the guard, each against the same thing written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gmmatch.compute.keys import draw_order, row_keys
from gmmatch.location.concentrated import Sample
from gmmatch.trust.clumps import find_clumps
from gmmatch.trust.gate import _REACH, _sampled, _thresholds, _valleys, find_gate
from gmmatch.trust.learning import draw_sample, sample_size
from gmmatch.trust.lift import Lift, effective_dimension, typical_gap
from gmmatch.trust.rules import measure_rows


@pytest.mark.parametrize(("n_rows", "clumps"), [(100, 0), (100, 1), (140, 2), (39, 1), (40, 1), (41, 1)])
def test_clumps_are_spots_where_the_nearest_twentieth_is_five_times_as_near(n_rows: int, clumps: int) -> None:
    rng = np.random.default_rng(n_rows)
    rows = rng.normal(size=(n_rows, 12))
    for number in range(clumps):
        part = slice(12 * number, 12 * (number + 1))
        rows[part] = 0.5 * number + 0.02 * rng.normal(size=(12, 12))
    spots, limit = find_clumps(Sample.of(rows))
    apart = np.sort(np.linalg.norm(rows[:, None] - rows, axis=2), axis=1)
    reach = apart[:, max(4, math.ceil(0.05 * n_rows))]
    expected = np.sort(reach)[n_rows // 2] / 5
    clumped = set(np.flatnonzero(reach < expected))
    if n_rows < 40 or not clumps:
        assert len(spots) == 0
        assert limit == 0.0
        return
    assert limit == pytest.approx(expected)
    assert clumped == set(range(12 * clumps))
    written = []
    while clumped:
        densest = min(clumped, key=lambda row: (reach[row], row))
        written.append(rows[densest])
        clumped -= set(np.flatnonzero(np.linalg.norm(rows - rows[densest], axis=1) <= limit))
    np.testing.assert_allclose(spots, written, atol=1e-9)


def middle(values: np.ndarray) -> float:
    return float(np.sort(values)[math.ceil(len(values) / 2) - 1])


def valley(values: np.ndarray) -> float:
    """Return the first value of the far half behind which hardly one follows up to a quarter more."""
    ordered = np.sort(values)
    half, n = ordered[len(ordered) // 2 :], len(ordered)
    for place, value in enumerate(half):
        between = np.count_nonzero(half <= 1.25 * value) - place - 1
        if between <= 0.005 * n and len(half) - 1 - place > 0.02 * n:
            return float(value)
    return math.inf


def limit(values: np.ndarray) -> float:
    """Return the median and three deviations of the values within, until nothing changes; or the valley."""
    threshold = math.inf
    for _ in range(20):
        within = values[values <= threshold * (1 + 1e-9)]
        latest = middle(within) + 3 * 1.4826 * middle(np.abs(within - middle(within)))
        if latest >= threshold:
            break
        threshold = latest
    return math.inf if len(values) < 8 else min(threshold, valley(values))


@pytest.mark.parametrize("seed", range(4))
def test_the_limit_of_a_class_is_the_median_and_three_deviations_or_a_valley(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = [
        rng.gamma(9.0, size=300),
        np.r_[rng.gamma(9.0, size=300), rng.uniform(40, 60, 200)],
        np.r_[rng.gamma(9.0, size=300), rng.uniform(30, 60, 60)],
        np.r_[rng.uniform(5, 6, 200), rng.uniform(8, 9, 199)],
        np.r_[rng.uniform(5, 6, 200), [6.7], rng.uniform(8, 9, 150)],
        np.r_[rng.uniform(5, 6, 195), [100.0] * 4],
        np.r_[rng.uniform(5, 6, 196), [100.0] * 5],
        np.r_[np.ones(7)],
        np.r_[np.ones(7), 9.0],
    ]
    codes = np.repeat(np.arange(len(classes)), [len(values) for values in classes])
    order = rng.permutation(len(codes))
    distances = np.concatenate(classes)[order]
    expected = [limit(values) for values in classes]
    np.testing.assert_allclose(_thresholds(distances, codes[order], len(classes)), expected, rtol=1e-12)
    assert _valleys(distances, codes[order], len(classes)).tolist() == [valley(values) for values in classes]
    assert math.isinf(expected[7])
    assert not math.isinf(expected[8])


@pytest.mark.parametrize("one_cloud", [True, False])
def test_rows_are_judged_by_their_distance_to_the_mean_of_the_rows_about_the_ball(one_cloud: bool) -> None:
    rng = np.random.default_rng(5)
    rows, codes = rng.normal(size=(400, 6)), rng.integers(-1, 2, 400)
    rows[:20] *= 8.0
    gate = find_gate(rows, codes, 2, row_keys(rows), one_cloud)
    starts = _sampled(rows, codes, 2, row_keys(rows), one_cloud)[0]
    for code in range(2):
        own = np.flatnonzero(codes == code)
        first = np.linalg.norm(rows[own] - starts[code], axis=1)
        near = own[first <= _REACH * middle(first)]  # those about the ball
        np.testing.assert_allclose(gate.centers[code], rows[near].mean(axis=0), atol=1e-9)
        measured = np.linalg.norm(rows[own] - gate.centers[code], axis=1)
        np.testing.assert_allclose(gate.distances[own], measured, rtol=1e-9)
        # A row is judged by the mean of the others.
        apart = np.array([np.linalg.norm(rows[row] - rows[near[near != row]].mean(axis=0)) for row in own])
        expected = limit(apart) if one_cloud else 5 * middle(apart)
        assert gate.thresholds[code] == pytest.approx(expected, rel=1e-9)
        assert gate.far[own].tolist() == (apart > expected * (1 + 1e-9)).tolist()
    assert not gate.far[codes < 0].any()
    again = measure_rows(rows, codes, gate.limits)
    # One by one, rows are measured to the mean of all: only rows at the very limit may differ.
    assert (again.far != gate.far).mean() < 0.01
    np.testing.assert_allclose(again.distances[codes >= 0], gate.distances[codes >= 0], rtol=1e-9)


def test_a_lift_has_the_products_of_a_gaussian_kernel() -> None:
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(20, 4))
    lift = Lift.draw(rows.mean(axis=0), 1.5, 40_000, seed=3)
    lifted = lift(rows)
    assert lifted.shape == (20, 40_000)
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1.0)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    np.testing.assert_allclose(lifted @ lifted.T, np.exp(-squares / (2 * 1.5**2)), atol=0.04)
    odd = Lift.draw(np.zeros(4), 1.0, 7, seed=3)
    assert (odd.n_features, odd(rows).shape[1]) == (6, 6)
    assert Lift.draw(np.zeros(4), 1.0, 1, seed=3).n_features == 2
    assert (Lift.draw(np.zeros(4), 1.0, 7, seed=4).directions != odd.directions).all()


def test_the_typical_gap_is_the_median_distance_of_pairs() -> None:
    rows = np.random.default_rng(7).normal(size=(15, 3))
    gaps = sorted(float(np.linalg.norm(rows[2 * pair] - rows[2 * pair + 1])) for pair in range(7))
    assert typical_gap(rows) == pytest.approx(gaps[3])
    assert typical_gap(rows[:3]) == pytest.approx(float(np.linalg.norm(rows[0] - rows[1])))
    assert typical_gap(rows[:1]) == 1.0
    assert typical_gap(np.zeros((6, 2))) == 1.0
    mostly_equal = np.zeros((8, 1))
    mostly_equal[7] = 4.0
    assert typical_gap(mostly_equal) == 4.0


@pytest.mark.parametrize("shape", [(50, 4), (5, 40)])
def test_the_effective_dimension_is_that_of_the_variances(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(8).normal(size=shape) * np.arange(1, shape[1] + 1) + 7.0
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    expected = variances.sum() ** 2 / (variances**2).sum()
    for scale in (1.0, 1e-170, 1e170):
        assert effective_dimension(rows * scale) == pytest.approx(expected)
    assert effective_dimension(np.ones((4, 3))) == 0.0


def test_a_sample_has_its_size_and_some_rows_of_every_class() -> None:
    rng = np.random.default_rng(9)
    keys = row_keys(rng.normal(size=(5000, 2)))
    codes = np.zeros(5000, np.int64)
    codes[:300], codes[300:310] = 1, 2
    codes = codes[rng.permutation(5000)]
    usable = rng.random(5000) < 0.9
    order = draw_order(keys)
    order = order[usable[order]]
    plain = draw_sample(keys, None, usable, 1000)
    assert plain is not None
    assert plain.tolist() == sorted(order[:1000].tolist())
    found = draw_sample(keys, codes, usable, 1000)
    assert found is not None
    for code in range(3):
        drawn = order[:1000][codes[order[:1000]] == code]
        own = order[codes[order] == code]
        wanted = own[: max(len(drawn), min(256, len(own)))]
        assert found[codes[found] == code].tolist() == sorted(wanted.tolist())
    assert draw_sample(keys, codes, usable, int(usable.sum())) is None
    assert draw_sample(keys, codes, usable, int(usable.sum()) - 1) is not None
    assert [sample_size(8, 2), sample_size(4000, 2), sample_size(8, 1000)] == [65536, 128_000, 128_000]
