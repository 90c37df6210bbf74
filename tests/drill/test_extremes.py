"""Shapes at the edges: a right result, or one sentence."""

import time
from dataclasses import dataclass

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidInput
from gmmatch.reporting import report


@dataclass(frozen=True)
class Shape:
    """Rows of random numbers; `classes` of equal size, 0: no labels."""

    n_rows: int
    n_columns: int
    classes: int

    def rows(self):
        numbers = np.random.default_rng(0).normal(size=(self.n_rows, self.n_columns))
        return numbers.astype(np.float32)

    def labels(self):
        return np.arange(self.n_rows) % self.classes if self.classes else None

    def __str__(self):
        labels = f"{self.classes:,} classes" if self.classes else "no labels"
        return f"{self.n_rows:,} x {self.n_columns:,}, {labels}"


SHAPES = [
    Shape(200_000, 8, 100_000),
    Shape(50_000, 8, 50_000),  # a class per row
    Shape(200_000, 1, 5),
    Shape(50_000, 1, 0),
    Shape(600, 20_000, 3),
    Shape(600, 20_000, 0),
]


def check_selection(selection, shape, k):
    """See that so many rows were kept, each once, and of every class its share.

    The rows are noise, so that no label is less likely than another, and no class has fewer rows to trust.
    """
    assert len(selection) == len(np.unique(selection.indices)) == k
    assert selection.indices.min() >= 0
    assert selection.indices.max() < shape.n_rows
    assert np.isfinite(selection.objective)
    if shape.classes:
        kept = np.bincount(shape.labels()[selection.indices], minlength=shape.classes)
        fair = k * np.bincount(shape.labels()) / shape.n_rows
        assert (np.abs(kept - fair) < 1).all()


def select(shape, k):
    """Keep `k` rows, or see that it is said why there cannot be so few; return how it ended."""
    if k < shape.classes:
        with pytest.raises(InvalidInput, match="would have none; keep at least"):
            gmmatch.select(shape.rows(), keep=k, labels=shape.labels())
        return "one sentence"
    check_selection(gmmatch.select(shape.rows(), keep=k, labels=shape.labels()), shape, k)
    return "right"


@pytest.mark.parametrize("k", [300, 1])
@pytest.mark.parametrize("classes", [0, 1, 3, 300])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_all_rows_and_one(n_columns, classes, k):
    select(Shape(300, n_columns, classes), k)


@pytest.mark.drill
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("keep", ["all", "six in ten", "one"])
def test_select(shape, keep, told):
    k = {"all": shape.n_rows, "six in ten": shape.n_rows * 6 // 10, "one": 1}[keep]
    started = time.process_time()
    ended = select(shape, k)
    told(f"`select` that keeps {keep}", str(shape), 1, f"{ended}, {time.process_time() - started:.0f} s")


@pytest.mark.drill
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_suspects(shape, told):
    if not shape.classes:
        with pytest.raises(InvalidInput, match="suspects need labels"):
            gmmatch.suspects(shape.rows(), shape.labels())
        told("`suspects`", str(shape), 1, "one sentence, 0 s")
        return
    started = time.process_time()
    found = gmmatch.suspects(shape.rows(), shape.labels())
    seconds = time.process_time() - started
    assert sorted(found.rows.tolist()) == list(range(shape.n_rows))
    assert ((found.suspicion >= 0) & (found.suspicion <= 1)).all()
    told("`suspects`", str(shape), 1, f"right, {seconds:.0f} s")


@pytest.mark.drill
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_report(shape, tmp_path, told):
    """The page of a selection that took no time to find."""
    gmmatch.select(
        shape.rows(), keep=1.0, labels=shape.labels(), method="random", output=tmp_path / "kept.parquet"
    )
    started = time.process_time()
    page = report(tmp_path / "kept.parquet", shape.rows(), tmp_path / "page.html", labels=shape.labels())
    seconds = time.process_time() - started
    assert page.glance.rows == page.glance.kept == shape.n_rows
    assert (tmp_path / "page.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    told("`report`", str(shape), 1, f"right, {seconds:.0f} s")
