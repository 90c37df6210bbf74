import numpy as np
import pytest

import gmmatch
from gmmatch.lab.experiments.bounds import LEMMA, paper_bound, run_bounds


def test_the_bound_is_the_papers_formula_with_every_sum_written_out() -> None:
    rng = np.random.default_rng(0)
    rows, corrupted = rng.normal(size=(10, 3)), np.arange(10) < 3
    clean = [row for row, bad in zip(rows, corrupted, strict=True) if not bad]
    mean = sum(clean) / 7
    spread = sum(float(np.dot(row - mean, row - mean)) for row in clean)
    assert paper_bound(rows, corrupted, 0.5) == pytest.approx(8 * 7 / 16 * spread + 2 * 0.25 / 16)


def test_the_lemma_holds_on_random_problems() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(60, 4)) * rng.uniform(0.1, 5, 4)
        corrupted = rng.random(60) < 0.4
        rows[corrupted] = rng.normal(size=(int(corrupted.sum()), 4)) * 10 ** rng.uniform(0, 6)
        median = gmmatch.geometric_median(rows)
        gap = np.sum((median.point - rows[~corrupted].mean(axis=0)) ** 2)
        assert gap <= paper_bound(rows, corrupted, median.epsilon * median.objective)


@pytest.mark.slow
def test_the_median_and_the_residual_step_stay_inside_and_the_literal_step_does_not() -> None:
    measured = run_bounds("smoke")
    for entry in measured:
        assert entry.found[LEMMA] <= entry.bound
        assert entry.found["gm-matching, residual step"] <= entry.bound
    assert any(entry.found["gm-matching-paper, projection step"] > entry.bound for entry in measured)
