from __future__ import annotations

import numpy as np
import pytest

import gmmatch
from gmmatch.data import Dataset


@pytest.fixture
def blobs():
    """Rows in three classes of different sizes, some with another class's label."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["ant", "bee", "cow"], [60, 120, 220])
    centers = {"ant": 0.0, "bee": 3.0, "cow": -3.0}
    rows = rng.normal(size=(400, 8)) + np.array([centers[label] for label in labels])[:, None]
    labels[:6] = "cow"
    return rows, labels


@pytest.fixture
def made(blobs):
    rows, labels = blobs
    selection = gmmatch.select(rows, keep=0.2, labels=labels)
    return selection, Dataset(rows, "blobs", "array", labels=labels)
