"""Numbers at the edge of what a float holds, odd orders in memory, and odd environments."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.errors import InvalidInput
from gmmatch.matching.features import effective_dimension

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 200)
ROWS = (RNG.normal(size=(200, 6)) + 3 * LABELS[:, None]).astype(np.float32)


@pytest.mark.parametrize("method", ["gm-matching-paper", "herding", "self-supervised", "k-center"])
def test_rows_of_float32_whose_squares_vanish_are_refused(method):
    tiny = ROWS * np.float32(2.0**-77)
    with pytest.raises(
        InvalidInput, match="squares of smaller float32 numbers vanish: multiply all of them, or"
    ):
        gmmatch.select(tiny, keep=30, labels=LABELS, method=method)
    expected = gmmatch.select(ROWS.astype(np.float64), keep=30, labels=LABELS, method=method)
    wide = gmmatch.select(tiny.astype(np.float64), keep=30, labels=LABELS, method=method)
    assert wide.indices.tolist() == expected.indices.tolist()
    small = gmmatch.select(ROWS * np.float32(2.0**-30), keep=30, labels=LABELS, method=method)
    assert (
        small.indices.tolist() == gmmatch.select(ROWS, keep=30, labels=LABELS, method=method).indices.tolist()
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("heavy", [1e10, 1e30, 1e49])
def test_the_certificate_is_true_beside_heavy_weights(seed, heavy):
    """At the heavy row the objective is what the others are away from it, which anybody can add up."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(6, 3)) * 3) * 10.0 ** rng.integers(-60, 60)
    weights = rng.uniform(0.5, 1.0, 6)
    weights[0] *= heavy
    best = float((weights * np.linalg.norm(rows - rows[0], axis=1)).sum())
    found = gmmatch.geometric_median(rows, weights=weights)
    objective = float((weights * np.linalg.norm(rows - found.point, axis=1)).sum())
    assert objective == pytest.approx(found.objective, rel=1e-6)
    assert objective <= best * (1 + found.epsilon) * (1 + 1e-9)


def test_weights_that_would_be_lost_to_rounding_are_refused():
    rows = np.array([[-1.0, -1.0, 0.0], [2.0, 1.0, 3.0], [0.0, 2.0, -1.0]])
    with pytest.raises(InvalidInput, match=r"weights range from 1 to 1e\+200; expected none below 1e-50"):
        gmmatch.geometric_median(rows, weights=[1e200, 1.0, 1.0])
    even = gmmatch.geometric_median(rows, weights=[1e200, 2e200, 0.0])
    np.testing.assert_allclose(even.point, gmmatch.geometric_median(rows, weights=[1, 2, 0]).point)


def test_rows_of_which_none_is_trusted_warn_of_nothing():
    with warnings.catch_warnings(action="error"):
        assert effective_dimension(np.empty((0, 3))) == 0.0


def test_scores_that_there_are_not_are_empty_in_files(tmp_path):
    wrong = np.where(RNG.random(200) < 0.3, RNG.integers(0, 3, 200), LABELS)
    picked = gmmatch.select(ROWS, keep=200, labels=wrong, method="k-center", guard="auto")
    untrusted = picked.tiers[picked.indices] > 0
    assert 0 < np.isnan(picked.scores).sum() <= untrusted.sum()
    picked.save(tmp_path / "kept.parquet")
    column = pq.read_table(tmp_path / "kept.parquet")["score"]
    assert column.null_count == np.isnan(picked.scores).sum()
    back = gmmatch.load_selection(tmp_path / "kept.parquet")
    np.testing.assert_array_equal(back.scores, picked.scores)
    gmmatch.select(
        ROWS, keep=200, labels=wrong, method="k-center", guard="auto", output=tmp_path / "kept.csv"
    )
    assert "nan" not in (tmp_path / "kept.csv").read_text()


@pytest.mark.parametrize("method", ["k-center", "facility-location", "herding", "moderate", "gm-matching"])
@pytest.mark.parametrize("width", [3, 20])
def test_the_order_of_an_array_in_memory_does_not_matter(tmp_path, method, width):
    rows = RNG.integers(0, 3, (60, width)) * 0.1 + RNG.integers(0, 2, (60, 1)) / 3
    expected = gmmatch.select(rows, keep=30, method=method)
    np.save(tmp_path / "rows.npy", np.asfortranarray(rows))
    for other in (
        np.asfortranarray(rows),
        np.concatenate([rows, rows], axis=1)[:, :width],
        tmp_path / "rows.npy",
    ):
        found = gmmatch.select(other, keep=30, method=method)
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.scores.tolist() == expected.scores.tolist()
        assert found.distances.tolist() == expected.distances.tolist()


def gmmatch_in(folder, words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "gmmatch", *words.split()],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", ["methods", "select rows.npy --keep 10 --json", "cache"])
def test_output_that_nobody_reads_is_no_failure(tmp_path, words):
    np.save(tmp_path / "rows.npy", ROWS)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "gmmatch", *words.split()],
        cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "kept.parquet").exists() == words.startswith("select")
