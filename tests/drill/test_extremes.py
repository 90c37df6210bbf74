"""Shapes at the edges: right, or one sentence."""

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidInput

RNG = np.random.default_rng(0)


def check(selection, n_rows, k):
    assert len(selection) == k
    assert len(np.unique(selection.indices)) == k
    assert selection.indices.min() >= 0
    assert selection.indices.max() < n_rows
    assert np.isfinite(selection.objective)


@pytest.mark.parametrize("labels", [None, RNG.integers(0, 3, 300), np.arange(300)])
@pytest.mark.parametrize("d", [1, 3])
def test_all_rows_and_one(labels, d):
    rows = RNG.normal(size=(300, d))
    everything = gmmatch.select(rows, 300, labels)
    check(everything, 300, 300)
    classes = 1 if labels is None else len(np.unique(labels))
    if classes > 1:
        with pytest.raises(InvalidInput, match="would have none; keep at least"):
            gmmatch.select(rows, 1, labels)
    else:
        check(gmmatch.select(rows, 1, labels), 300, 1)


@pytest.mark.drill
def test_one_column(told):
    rows = RNG.normal(size=(200_000, 1)).astype(np.float32)
    for labels in (None, RNG.integers(0, 5, 200_000)):
        check(gmmatch.select(rows, "1%", labels), 200_000, 2000)
    told("one column", "200,000 rows", 2, "right")


@pytest.mark.drill
def test_very_many_columns(told):
    rows = RNG.normal(size=(600, 20_000)).astype(np.float32)
    for labels in (None, RNG.integers(0, 3, 600)):
        check(gmmatch.select(rows, "10%", labels), 600, 60)
    told("20,000 columns", "600 rows", 2, "right")


@pytest.mark.drill
def test_very_many_classes(told):
    rows = RNG.normal(size=(200_000, 8)).astype(np.float32)
    labels = np.arange(200_000) % 100_000
    check(gmmatch.select(rows, "60%", labels), 200_000, 120_000)
    told("100,000 classes", "200,000 rows", 1, "right")


@pytest.mark.drill
def test_a_class_per_row(told):
    rows = RNG.normal(size=(50_000, 8)).astype(np.float32)
    with pytest.raises(InvalidInput, match="would have none; keep at least"):
        gmmatch.select(rows, "10%", np.arange(50_000))
    check(gmmatch.select(rows, 1.0, np.arange(50_000)), 50_000, 50_000)
    told("a class per row", "50,000 rows", 2, "right, or one sentence")
