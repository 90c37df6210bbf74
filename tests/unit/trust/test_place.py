"""The place of rows: gross errors of any share below one half are found, and good rows are left alone."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.location.concentrated import Sample
from gmmatch.trust.evidence.place import _REACH, _sampled, _thresholds, _valleys, find_clumps, find_gate


def gate_of(rows: Any, codes: Any = None, n_classes: int = 1) -> Any:
    limits = find_gate(rows, codes, n_classes, row_keys(rows))
    distances, far, clumped = limits.judge(rows, np.zeros(len(rows), np.int64) if codes is None else codes)
    return SimpleNamespace(
        limits=limits,
        thresholds=limits.thresholds,
        distances=distances,
        far=far,
        clumped=clumped,
        passed=~(far | clumped),
    )


@pytest.mark.parametrize("d", [8, 64, 512])
def test_hardly_a_clean_row_falls(d):
    rows = np.random.default_rng(d).normal(size=(5000, d))
    assert (~gate_of(rows).passed).mean() < 0.005


@pytest.mark.parametrize("share", [0.05, 0.3, 0.45])
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 5.0])
def test_far_rows_fall_whatever_their_share_and_spread(share, spread):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 32))
    wrong = rng.permutation(2000) < share * 2000
    rows[wrong] = 30.0 / np.sqrt(32) + spread * rng.normal(size=(wrong.sum(), 32))
    passed = gate_of(rows).passed
    assert not passed[wrong].any()
    assert passed[~wrong].mean() > 0.98


@pytest.mark.parametrize("magnitude", [1e3, 1e12, 1e120])
def test_the_size_of_the_errors_does_not_matter(magnitude):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(500, 16))
    rows[:200] *= magnitude
    passed = gate_of(rows).passed
    assert not passed[:200].any()
    assert passed[200:].mean() > 0.98


def test_a_clump_nearer_than_any_good_row_is_found():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2000, 256))
    wrong = rng.permutation(2000) < 800
    rows[wrong] = 0.3 + 0.05 * rng.normal(size=(800, 256))
    gate = gate_of(rows)
    assert gate.clumped[wrong].all()
    assert gate.passed[~wrong].mean() > 0.99


def test_modes_of_one_width_are_no_clumps():
    rng = np.random.default_rng(3)
    modes = rng.choice(4, 2000, p=[0.4, 0.3, 0.2, 0.1])
    rows = 4 * rng.normal(size=(4, 32))[modes] / np.sqrt(2) + rng.normal(size=(2000, 32))
    gate = gate_of(rows)
    assert not gate.clumped.any()


def test_classes_are_judged_each_by_its_own_center():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, 3000)
    rows = rng.normal(size=(3000, 16)) + 100.0 * codes[:, None]
    rows[0] = 200.0 - 100.0 * codes[0] + 0.5  # in the middle of another class, or of none
    gate = gate_of(rows, codes, 3)
    assert gate.far[0] or codes[0] == 1
    for code in range(3):
        alone = gate_of(rows[codes == code])
        assert (alone.far == gate.far[codes == code]).all()
        np.testing.assert_allclose(alone.thresholds[0], gate.thresholds[code])


def test_small_classes_are_not_judged():
    rows = np.r_[np.zeros((6, 2)), [[1e9, 0.0]]]
    assert gate_of(rows).passed.all()


def test_rows_of_no_class_take_no_part():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(400, 8))
    codes = np.zeros(400, dtype=np.int64)
    codes[:100] = -1
    gate = gate_of(rows, codes, 1)
    alone = gate_of(rows[100:])
    assert (gate.far[100:] == alone.far).all()
    assert not gate.far[:100].any()


def test_rows_that_are_all_alike_pass():
    assert gate_of(np.ones((50, 3))).passed.all()


def adversary(rng, rows, share):
    """Yield attacks by somebody who sees the rows: place, spread and number of clusters, all below half."""
    count = int(share * len(rows))
    center, radius = rows.mean(axis=0), np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean()
    for distance in (0.5, 1.0, 2.0, 4.0, 16.0):
        for spread in (0.0, 0.05, 1.0):
            for clusters in (1, 3):
                ways = rng.normal(size=(clusters, rows.shape[1]))
                ways *= distance * radius / np.linalg.norm(ways, axis=1, keepdims=True)
                places = center + ways[rng.integers(0, clusters, count)]
                attacked = rows.copy()
                victims = rng.permutation(len(rows))[:count]
                attacked[victims] = places + spread * rng.normal(size=(count, rows.shape[1]))
                good = np.ones(len(rows), dtype=bool)
                good[victims] = False
                yield (distance, spread, clusters), attacked, good


@pytest.mark.parametrize("share", [0.2, 0.45])
def test_an_adversary_that_sees_the_rows_cannot_pull_the_picks_out_of_them(share):
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(600, 24))
    radius = np.linalg.norm(rows, axis=1).mean()
    drifts, paper = [], []
    for _, attacked, good in adversary(rng, rows, share):
        clean = attacked[good].mean(axis=0)
        for drift, params in ((drifts, {"clusters": "off"}), (paper, {"method": "gm-matching-paper"})):
            picks = gmmatch.select(attacked, keep=60, **params).indices
            drift.append(np.linalg.norm(attacked[picks].mean(axis=0) - clean) / radius)
    # The worst attack hides in ordinary distance; nothing gets the mean of the picks beyond the good rows.
    assert max(drifts) < 1.0
    assert max(drifts) < max(paper)
    assert np.median(drifts) < 0.15


def test_what_can_be_told_apart_gets_no_pick():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(600, 24))
    for (distance, spread, clusters), attacked, good in adversary(rng, rows, 0.45):
        dense = spread <= 0.05 and clusters <= 3
        if dense or distance >= 4.0:
            picks = gmmatch.select(attacked, keep=60, clusters="off").indices
            assert good[picks].mean() >= 0.99, (distance, spread, clusters)


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
    distances, far, clumped = gate.judge(rows, codes)
    assert not clumped.any()
    starts = _sampled(rows, codes, 2, row_keys(rows), one_cloud)[0]
    for code in range(2):
        own = np.flatnonzero(codes == code)
        first = np.linalg.norm(rows[own] - starts[code], axis=1)
        near = own[first <= _REACH * middle(first)]  # those about the ball
        np.testing.assert_allclose(gate.centers[code], rows[near].mean(axis=0), atol=1e-9)
        measured = np.linalg.norm(rows[own] - gate.centers[code], axis=1)
        np.testing.assert_allclose(distances[own], measured, rtol=1e-9)
        # The limit is that of the distances to the mean of the others.
        apart = np.array([np.linalg.norm(rows[row] - rows[near[near != row]].mean(axis=0)) for row in own])
        expected = limit(apart) if one_cloud else 5 * middle(apart)
        assert gate.thresholds[code] == pytest.approx(expected, rel=1e-9)
        assert far[own].tolist() == (measured > gate.thresholds[code] * (1 + 1e-9)).tolist()
    assert not far[codes < 0].any()


def test_rows_in_the_long_tail_of_their_class_are_not_misplaced() -> None:
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(400, 3)), np.repeat([0, 1], 200)
    rows[200:, 0] += 20.0
    # One in the tail of its class, one in the other class, one far outside both.
    rows[:3] = [[0.0, 9.0, 0.0], [20.0, 0.0, 0.0], [0.0, 900.0, 0.0]]
    limits = find_gate(rows, codes, 2, row_keys(rows, 0))
    distances, far, _ = limits.judge(rows, codes)
    assert far[:3].all()
    strays, misplaced = limits.misplaced(rows, codes, far, distances)
    assert misplaced[:3].tolist() == [False, True, True]
    assert strays[:3].tolist() == [False, False, True]


def test_what_another_class_allows_says_nothing_where_classes_allow_most_rows_of_each_other() -> None:
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(400, 3)), np.repeat([0, 1], 200)
    rows[200:] *= 3.0  # about the same middle, and three times as wide
    rows[:2] = [
        [0.0, 6.0, 0.0],
        [0.0, 900.0, 0.0],
    ]  # of the narrow class: one is allowed by the other, one by none
    limits = find_gate(rows, codes, 2, row_keys(rows, 0))
    distances, far, _ = limits.judge(rows, codes)
    assert far[:2].all()
    assert limits.misplaced(rows, codes, far, distances)[1][:2].tolist() == [False, True]


def test_dense_clusters_are_no_fault_where_they_are_not_looked_for() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 8))
    rows[:60] = 1.0
    codes = np.zeros(300, np.int64)
    with_clumps = find_gate(rows, codes, 1, row_keys(rows, 0))
    without = find_gate(rows, codes, 1, row_keys(rows, 0), clumps=False)
    assert with_clumps.judge(rows, codes)[2].any()
    assert not without.judge(rows, codes)[2].any()
