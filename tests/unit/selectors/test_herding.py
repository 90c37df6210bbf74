"""Herding against a direct transcription of its definition."""

import numpy as np
import pytest

import gmmatch


def herd(rows: np.ndarray, k: int, step: str) -> list[int]:
    center = rows.mean(axis=0)
    theta = center.copy() if step == "projection" else np.zeros_like(center)
    picks: list[int] = []
    for _ in range(k):
        residuals = np.linalg.norm(theta - (rows - center), axis=1)
        scores = rows @ theta if step == "projection" else -residuals
        scores[picks] = -np.inf
        picks.append(int(scores.argmax()))
        theta = theta + center - rows[picks[-1]]
    return picks


@pytest.mark.parametrize("step", ["projection", "residual"])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_it_picks_what_its_definition_says(step: str, k: int) -> None:
    rows = np.random.default_rng(4).normal(size=(200, 6)) + 0.5
    found = gmmatch.select(rows, keep=k, method="herding", step=step)
    assert found.indices.tolist() == herd(rows, k, step)
    kept = rows[found.indices]
    running = np.cumsum(kept, axis=0) / np.arange(1, k + 1)[:, None]
    np.testing.assert_allclose(found.scores, np.linalg.norm(running - rows.mean(axis=0), axis=1), atol=1e-12)


def test_the_projection_from_the_center_is_the_default() -> None:
    rows = np.random.default_rng(4).normal(size=(200, 6)) + 0.5
    default = gmmatch.select(rows, keep=30, method="herding")
    named = gmmatch.select(rows, keep=30, method="herding", step="projection", start="center", center="mean")
    np.testing.assert_array_equal(default.indices, named.indices)


def test_with_the_geometric_median_it_is_gm_matching_by_the_paper() -> None:
    rows = np.random.default_rng(4).normal(size=(200, 6)) + 0.5
    herded = gmmatch.select(rows, keep=30, method="herding", center="geometric-median")
    np.testing.assert_array_equal(
        herded.indices, gmmatch.select(rows, keep=30, method="gm-matching-paper").indices
    )


def test_the_error_of_the_mean_falls_like_one_over_k() -> None:
    rows = np.random.default_rng(4).normal(size=(3000, 8))
    scores = gmmatch.select(rows, keep=400, method="herding", step="residual").scores
    assert scores[399] * 400 < 4 * scores[39] * 40
