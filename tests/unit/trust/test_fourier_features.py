"""Fourier features against the kernel they stand for, and what they do to picks in few dimensions."""

from dataclasses import replace

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidParameter
from gmmatch.matching.features import (
    AUTO_FOURIER_FEATURES,
    MatchedRows,
    choose_fourier_features,
    effective_dimension,
)
from gmmatch.trust import judge
from gmmatch.trust.inputs import FourierFeatures, typical_gap


def test_inner_products_are_those_of_a_gaussian_kernel():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 6))
    fourier = FourierFeatures.draw(rows.mean(axis=0), bandwidth=1.7, n_features=60_000, seed=1)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    found = fourier(rows)
    np.testing.assert_allclose(found @ found.T, np.exp(-squares / (2 * 1.7**2)), atol=0.02)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)


def test_the_effective_dimension_is_that_of_the_covariance():
    rows = np.random.default_rng(0).normal(size=(300, 40)) * np.geomspace(1, 0.01, 40)
    values = np.linalg.eigvalsh(np.cov(rows.T))
    expected = values.sum() ** 2 / (values**2).sum()
    assert effective_dimension(rows) == pytest.approx(expected)
    assert effective_dimension(rows[:20]) == pytest.approx(
        np.trace(g := (c := rows[:20] - rows[:20].mean(0)) @ c.T) ** 2 / (g**2).sum()
    )
    assert effective_dimension(np.ones((5, 3))) == 0.0
    for scale in (1e-150, 1e130):
        assert effective_dimension(scale * rows) == pytest.approx(expected)


def test_the_typical_gap_is_the_median_distance_of_random_pairs():
    rows = np.random.default_rng(0).normal(size=(4000, 50))
    assert typical_gap(rows) == pytest.approx(10.0, rel=0.05)
    assert typical_gap(np.ones((7, 2))) == typical_gap(np.ones((1, 2))) == 1.0


@pytest.mark.parametrize("d", [2, 8])
def test_with_fourier_features_picks_spread_as_the_rows_do_and_their_mean_stays(d):
    rows = np.random.default_rng(d).normal(size=(1000, d))
    one_class = np.zeros(1000, int)
    found, plain = (
        gmmatch.select(rows, keep=100, labels=one_class, fourier_features=fourier).indices
        for fourier in ("auto", "off")
    )
    share = [rows[picks].var(axis=0).sum() / rows.var(axis=0).sum() for picks in (found, plain)]
    assert share[0] > 0.65
    assert share[0] > 1.5 * share[1]
    draws = [
        gmmatch.select(rows, keep=100, labels=one_class, method="random", random_state=seed).indices
        for seed in range(20)
    ]
    off = [np.linalg.norm(rows[picks].mean(axis=0) - rows.mean(axis=0)) for picks in (found, *draws)]
    assert off[0] < np.mean(off[1:]) / 3


def test_in_the_space_of_fourier_features_the_error_falls_like_one_over_k():
    rows = np.random.default_rng(1).normal(size=(3000, 3))
    verdict = judge(rows, None, 1, seed=0)
    view = MatchedRows(rows, verdict, choose_fourier_features(rows, None, verdict, "auto", 0))
    order = gmmatch.select(rows, keep=600, labels=np.zeros(3000, int)).indices
    trusted = np.flatnonzero(verdict.tiers == 0)
    target = view[trusted].mean(axis=0, dtype=np.float64)
    sums = np.cumsum(view[order] - target, axis=0)
    budgets = np.array([25, 50, 100, 200, 400])
    errors = np.linalg.norm(sums[budgets - 1], axis=1) / budgets
    slope = np.polyfit(np.log(budgets), np.log(errors), 1)[0]
    assert slope < -0.75
    assert (budgets * errors < 5.0).all()


def test_rows_in_many_directions_get_no_fourier_features():
    rows = np.random.default_rng(0).normal(size=(500, 64))
    verdict = judge(rows, None, 1, seed=0)
    assert choose_fourier_features(rows, None, verdict, "auto", 0) is None
    assert choose_fourier_features(rows, None, verdict, 64, 0).n_features == 64
    flat = judge(rows[:, :3], None, 1, seed=0)
    assert choose_fourier_features(rows[:, :3], None, flat, "auto", 0).n_features == AUTO_FOURIER_FEATURES
    assert choose_fourier_features(rows[:, :3], None, flat, "off", 0) is None


def test_classes_that_planes_divide_get_fourier_features_too_where_their_rows_spread_in_few_directions():
    rng = np.random.default_rng(4)
    codes = np.repeat([0, 1], 400)
    rows = rng.normal(size=(800, 4)) + 6.0 * codes[:, None]
    verdict = judge(rows, codes, 2, seed=0)
    assert verdict.rules.classifier is not None
    assert not verdict.rules.classifier.kernel
    found = choose_fourier_features(rows, codes, verdict, "auto", 0)
    view = MatchedRows(rows, verdict, found)
    scaled = (rows - verdict.rules.origin) / (4 * verdict.rules.scale)
    np.testing.assert_allclose(view[:][:, :4], scaled, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(view[:][:, 4 : 4 + AUTO_FOURIER_FEATURES], found(rows), atol=1e-6)
    spread = [
        np.mean([rows[own].var(axis=0).sum() for own in (picks[codes[picks] == c] for c in (0, 1))])
        for picks in (
            gmmatch.select(rows, keep=60, labels=codes, fourier_features=fourier).indices
            for fourier in ("auto", "off")
        )
    ]
    assert spread[0] > 0.7 * 4
    assert spread[0] > 1.3 * spread[1]


def test_duplicates_count_once_in_what_decides_on_fourier_features():
    rng = np.random.default_rng(5)
    rows = np.vstack([rng.normal(size=(3000, 64)), np.repeat(rng.normal(size=(10, 64)), 300, axis=0)])
    verdict = replace(judge(rows, None, 1, seed=0), tiers=np.zeros(6000, np.int8))
    assert choose_fourier_features(rows, None, verdict, "auto", 0) is None
    mixed = rng.permutation(6000)
    again = replace(judge(rows[mixed], None, 1, seed=0), tiers=np.zeros(6000, np.int8))
    one, other = (
        choose_fourier_features(part, None, own, 8, 0)
        for part, own in ((rows, verdict), (rows[mixed], again))
    )
    np.testing.assert_array_equal(one.directions, other.directions)


@pytest.mark.parametrize(
    "params", [{"fourier_features": "on"}, {"fourier_features": 0}, {"clusters": "many"}, {"clusters": -1}]
)
def test_values_that_make_no_sense_are_refused(params):
    with pytest.raises(InvalidParameter, match=next(iter(params))):
        gmmatch.select(np.eye(8), keep=2, **params)
