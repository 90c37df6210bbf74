"""The gate finds gross errors of any share below one half, and leaves good rows alone."""

import numpy as np
import pytest

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.trust.gate import find_gate


def gate_of(rows, codes=None, n_classes=1):
    return find_gate(rows, codes, n_classes, row_keys(rows))


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
        for drift, params in ((drifts, {"cells": "off"}), (paper, {"method": "gm-matching-paper"})):
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
            picks = gmmatch.select(attacked, keep=60, cells="off").indices
            assert good[picks].mean() >= 0.99, (distance, spread, clusters)
