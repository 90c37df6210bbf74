import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidParameter

ROWS = np.random.default_rng(0).normal(size=(900, 5)) + np.linspace(0, 3, 5)
LABELS = np.arange(900) % 3


def fitted(**params):
    return gmmatch.GMMatching(keep=30, guard="off", **params).fit(ROWS, LABELS)


@pytest.mark.parametrize("batch_size", [None, 64])
def test_the_centre_is_the_median_of_a_sample_and_certified_on_all_rows(batch_size) -> None:
    exact, sampled = fitted(batch_size=batch_size), fitted(batch_size=batch_size, sample=0.2)
    for code in range(3):
        rows = ROWS[code == LABELS]
        lowest = gmmatch.geometric_median(rows).objective
        excess = np.linalg.norm(rows - sampled.centers_[code], axis=1).sum() / lowest - 1
        assert 1e-4 < excess <= sampled.selection_.info.epsilon
        assert np.linalg.norm(exact.centers_[code] - sampled.centers_[code]) < 0.5
    assert exact.selection_.info.epsilon < 1e-2 * sampled.selection_.info.epsilon


def test_memory_and_batches_draw_the_same_sample_and_all_rows_are_the_median_itself() -> None:
    np.testing.assert_array_equal(
        fitted(batch_size=None, sample=50).centers_, fitted(batch_size=64, sample=50).centers_
    )
    assert (fitted(sample=50, random_state=1).centers_ != fitted(sample=50).centers_).any()
    np.testing.assert_allclose(fitted(sample=1.0).centers_, fitted().centers_, atol=1e-3)
    np.testing.assert_allclose(fitted(sample=10_000).centers_, fitted().centers_, atol=1e-3)


@pytest.mark.parametrize("value", [0, -0.5, 1.5, "some"])
def test_a_wrong_sample_is_refused(value) -> None:
    with pytest.raises(InvalidParameter, match="sample must be a fraction"):
        fitted(sample=value)


def test_the_papers_variants_refuse_another_centre() -> None:
    for method in ("gm-matching-paper", "gm-matching-authors"):
        with pytest.raises(InvalidParameter, match="center"):
            gmmatch.select(ROWS, keep=10, method=method, center="mean")
