"""What must not change the suspects: the order of rows, the scale, the names of classes, copies, far rows."""

import numpy as np
import pytest

import gmmatch

N = 600
KINDS = ("clusters", "photos", "three rare classes")


def make(kind, seed):
    """Return rows, their labels, of which a fifth is wrong, and which those are."""
    rng = np.random.default_rng(seed)
    n_classes = 6 if kind == "three rare classes" else 3
    shares = np.array([10, 10, 10, 1, 1, 1])[:n_classes]
    truth = rng.choice(n_classes, N, p=shares / shares.sum())
    rows = 1.5 * rng.normal(size=(n_classes, 12))[truth] + rng.normal(size=(N, 12))
    if kind == "photos":
        rows = np.clip(np.round(128 + 30 * rows), 0, 255)
    wrong = rng.random(N) < 0.2
    given = np.where(wrong, (truth + rng.integers(1, n_classes, N)) % n_classes, truth)
    return rows.astype(np.float32), np.array([f"class {code}" for code in given]), wrong


def by_row(found):
    """Return what is said of each row, by row number."""
    order = np.argsort(found.rows)
    columns = found.columns()
    return {name: np.asarray(columns[name])[order] for name in columns if name != "row"}


def said(rows, labels):
    return by_row(gmmatch.suspects(rows, labels))


@pytest.fixture(params=[(kind, seed) for kind in KINDS for seed in (0, 1)], ids=str)
def case(request):
    rows, labels, wrong = make(*request.param)
    return rows, labels, wrong, said(rows, labels)


def test_the_order_of_rows_changes_nothing(case):
    rows, labels, _, before = case
    order = np.random.default_rng(7).permutation(N)
    after = said(rows[order], labels[order])
    assert order[after.pop("keep")].tolist() == before.pop("keep")[order].tolist()
    for name in before:
        np.testing.assert_array_equal(after[name], before[name][order], err_msg=name)


@pytest.mark.parametrize("factor", [2.0**-20, 0.25, 2.0**20])
def test_the_scale_changes_nothing(case, factor):
    rows, labels, _, before = case
    after = said(rows * np.float32(factor), labels)
    # Samples are drawn by hashes of the values, which are others now.
    np.testing.assert_allclose(after["suspicion"], before["suspicion"], atol=0.05)
    doubtful = before["suspicion"] > 0.5
    assert after["suggested"][doubtful].tolist() == before["suggested"][doubtful].tolist()


def test_names_of_classes_change_nothing_else(case):
    rows, labels, _, before = case
    names = dict(zip(np.unique(labels), ["zebra", "ant", "mole", "bee", "yak", "cat"], strict=False))
    after = said(rows, np.array([names[label] for label in labels]))
    np.testing.assert_allclose(after["suspicion"], before["suspicion"], atol=2e-3)
    renamed = [names.get(name, name) for name in before["suggested"].tolist()]
    same = np.array(renamed, object) == after["suggested"].astype(object)
    assert (same | (before["suspicion"] < 0.01)).all()


def test_rows_that_are_there_twice_are_judged_as_they_were(case):
    """Each row once more, with its label: nothing new was said, and copies of one row are judged alike."""
    rows, labels, _, before = case
    after = said(np.r_[rows, rows], np.r_[labels, labels])
    first, second = after["suspicion"][:N], after["suspicion"][N:]
    np.testing.assert_array_equal(first, second)
    assert (
        ((first > 0.5) == (before["suspicion"] > 0.5)) | (np.abs(first - before["suspicion"]) < 0.1)
    ).all()


@pytest.mark.parametrize("count", [1, 20])
def test_far_rows_that_are_appended_leave_the_others_as_they_were(case, count):
    rows, labels, wrong, before = case
    rng = np.random.default_rng(3)
    reach = 1e3 * float(np.abs(rows - rows.mean(axis=0)).max())
    far = (reach * rng.normal(size=(count, rows.shape[1]))).astype(np.float32)
    after = said(np.r_[rows, far], np.r_[labels, rng.choice(labels, count)])
    others = after["suspicion"][:N]
    assert (
        ((others > 0.5) == (before["suspicion"] > 0.5)) | (np.abs(others - before["suspicion"]) < 0.1)
    ).all()
    assert np.mean((others > 0.5) == wrong) > 0.9
