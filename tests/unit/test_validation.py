import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gmmatch
from gmmatch.compute.blocks import by_group
from gmmatch.compute.keys import look_at_rows
from gmmatch.errors import GmmatchError, InvalidInput
from gmmatch.validation import (
    as_labels,
    as_rows,
    as_seed,
    digest_rows,
    fingerprint,
    number_classes,
    resolve_keep,
)

GOOD = np.arange(12.0).reshape(6, 2)


def sentence(action):
    with pytest.raises(GmmatchError) as caught:
        action()
    assert isinstance(caught.value, (ValueError, TypeError))
    message = str(caught.value)
    assert "\n" not in message
    return message


def with_nan(*rows):
    bad = GOOD.copy()
    bad[list(rows), 1] = np.nan
    return bad


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (with_nan(4), "in 1 row (first: 4)"),
        (with_nan(1, 3), "in 2 rows (first: 1, 3)"),
        (np.array([[1.0], [np.inf], [-np.inf]]), "in 2 rows (first: 1, 2)"),
        (np.array([[1.0], [1e200]]), "in 1 row (first: 1)"),
        (np.empty((0, 3)), "0 rows and 3 features"),
        (np.empty((3, 0)), "3 rows and 0 features"),
        (np.arange(5.0), "must have two dimensions (rows, features); got 1, shape (5,)"),
        (np.zeros((2, 2, 2)), "got 3, shape (2, 2, 2)"),
        ([["a", "b"], ["c", "d"]], "must hold numbers; got text (first value: 'a')"),
        (np.array([[1, "x"]], dtype=object), "must hold numbers; got str (for example 'x')"),
        ([[1.0, 2.0], [3.0]], "differ in length"),
        (np.zeros((2, 2), dtype=complex), "must hold numbers; got values of type complex128"),
    ],
)
def test_bad_rows_get_one_sentence(rows, words):
    assert words in sentence(lambda: gmmatch.select(rows, keep=1))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 1], "2 entries for 6 rows"),
        (np.zeros((6, 2)), "must have one dimension; got shape (6, 2)"),
        ([0.5, 1, 1, 1, 0, 0], "got 0.5 at row 0"),
        ([0, 1, np.nan, 0, 1, 0], "1 of 6 rows of X cannot be used: row 2: no label; on_bad_rows='drop'"),
        (
            np.array(["a", None, "a", "b", None, "b"], dtype=object),
            "2 of 6 rows of X cannot be used: row 1: no label; row 4: no label",
        ),
        (
            np.array(["a", 1, "a", "b", "a", "b"], dtype=object),
            "all whole numbers or all text; got int and str",
        ),
    ],
)
def test_bad_labels_get_one_sentence(labels, words):
    assert words in sentence(lambda: gmmatch.select(GOOD, keep=2, labels=labels))


@pytest.mark.parametrize("keep", [0, 1.5, -3, -0.1, 0.0, True, "ten", "-5", None, float("nan")])
def test_bad_budgets_get_one_sentence(keep):
    message = sentence(lambda: gmmatch.select(GOOD, keep=keep))
    assert "keep must be a fraction in (0, 1] or a count of at least 1; got" in message


def test_budgets_that_the_data_cannot_meet():
    assert "keep asks for 7 rows, but there are only 6" in sentence(lambda: gmmatch.select(GOOD, keep=7))
    message = sentence(lambda: gmmatch.select(GOOD, keep=2, labels=[0, 0, 1, 1, 2, 2]))
    assert "keep gives 2 rows for 3 classes, so that 1 would have none" in message


def test_unknown_names_come_with_the_nearest_known_one():
    assert "did you mean 'gm-matching'" in sentence(lambda: gmmatch.select(GOOD, method="gm-maching"))
    assert "did you mean 'batch_size'" in sentence(lambda: gmmatch.select(GOOD, batchsize=3))


@given(st.integers(1, 10**9), st.floats(1e-12, 1.0, exclude_min=True))
def test_a_fraction_is_the_rounded_share_and_at_least_one(n, share):
    k = resolve_keep(share, n)
    assert 1 <= k <= n
    assert k == 1 or abs(k - share * n) <= 0.5 + 1e-6


def test_kinds_of_rows_that_are_welcome():
    expected = gmmatch.select(GOOD, keep=3).indices.tolist()
    torch = pytest.importorskip("torch", reason="needs torch")
    tensor = torch.tensor(GOOD, requires_grad=True)
    for rows in (GOOD.tolist(), GOOD.astype(int), GOOD.astype(np.float16), GOOD.astype(object), tensor,
                 GOOD.astype(">f8"), np.asfortranarray(GOOD)):  # fmt: skip
        assert gmmatch.select(rows, keep=3).indices.tolist() == expected


def test_rows_are_not_copied_without_need():
    for dtype in (np.float32, np.float64):
        rows = GOOD.astype(dtype)
        assert as_rows(rows) is rows


def test_kinds_of_labels_that_are_welcome():
    torch = pytest.importorskip("torch", reason="needs torch")
    for labels in ([1, 0, 1], ["b", "a", "b"], [True, False, True], [1.0, 0.0, 1.0], torch.tensor([1, 0, 1]),
                   np.array(["b", "a", "b"], dtype=object), np.array([[1], [0], [1]])):  # fmt: skip
        classes, codes = as_labels(labels, 3)
        assert len(classes) == 2
        assert codes.tolist() == [1, 0, 1]


def test_seeds():
    assert as_seed(np.int64(5)) == 5
    assert as_seed(np.random.default_rng(1)) == as_seed(np.random.default_rng(1))
    assert as_seed(None) != as_seed(None)
    assert "got 'x'" in sentence(lambda: as_seed("x"))


def test_the_fingerprint_tells_inputs_apart():
    labels = np.arange(6)
    prints = {
        fingerprint(GOOD), fingerprint(GOOD + 1), fingerprint(GOOD.astype(np.float32)), fingerprint(GOOD[:5]),
        fingerprint(GOOD, labels), fingerprint(GOOD, labels[::-1]),
    }  # fmt: skip
    assert len(prints) == 6
    assert fingerprint(GOOD.copy()) == fingerprint(GOOD)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fingerprint_is_of_every_row_and_the_seed_has_no_part_in_it(dtype):
    rows = np.random.default_rng(0).normal(size=(3000, 5)).astype(dtype)
    digest = digest_rows(rows)
    assert {look_at_rows(rows, seed)[2] for seed in (0, 1, 7)} == {digest}
    prints = {digest}
    for row in range(0, 3000, 7):  # any row, any number, the smallest change
        changed = rows.copy()
        changed[row, row % 5] = np.nextafter(changed[row, row % 5], 9)
        prints.add(digest_rows(changed))
    prints |= {digest_rows(rows[::-1]), digest_rows(rows[:, ::-1])}
    assert len(prints) == 1 + len(range(0, 3000, 7)) + 2
    assert digest_rows(rows.astype(np.float64)) == digest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"state": 3}, "state must be the path of a file; got 3"),
        ({"report": True}, "report must be the path of a file; got True"),
        ({"engine": 1}, "engine must be 'local', 'processes' or 'ray'; got 1"),
        ({"engine": None}, "engine must be 'local', 'processes' or 'ray'; got None"),
        ({"memory": [1]}, "memory must be at least 1MB; got [1]"),
        ({"labels": [None] * 6, "on_bad_rows": "drop"}, "all 6 rows of X are bad (row 0: no label)"),
    ],
)
def test_odd_arguments_are_refused_before_any_work(arguments, words):
    assert words in sentence(lambda: gmmatch.select(GOOD, keep=2, **arguments))


def test_a_sparse_tensor_is_refused():
    torch = pytest.importorskip("torch")
    assert "sparse tensor" in sentence(lambda: gmmatch.select(torch.from_numpy(GOOD).to_sparse(), keep=2))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_labels_beside_a_table_may_be_a_column_of_another(library):
    frames = pytest.importorskip(library)
    rows, names = np.random.default_rng(0).normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    expected = gmmatch.select(rows, keep=6, labels=names)
    table = frames.DataFrame(dict(zip("xyz", rows.T, strict=True)))
    for labels in (frames.Series(names.tolist()), names, names.tolist()):
        found = gmmatch.select(table, keep=6, labels=labels, ids=frames.Series(np.arange(40)))
        assert found.indices.tolist() == expected.indices.tolist()


@pytest.mark.parametrize("labels", [None, np.arange(60) % 3])
def test_rows_too_small_to_be_compared_are_refused(labels):
    rows = np.random.default_rng(0).normal(size=(60, 4))
    for action in (gmmatch.select, gmmatch.GMMatching(keep=6).fit, gmmatch.suspects):
        with pytest.raises(
            InvalidInput, match=r"no value larger than .*e-200; expected one of at least 1e-140"
        ):
            action(rows * 1e-200, 6) if action is gmmatch.select else action(rows * 1e-200, labels)
    rows[7] = 1.0  # one ordinary row, and all zeros, are told apart as ever
    assert len(gmmatch.select(rows * 1e-139, keep=6, labels=labels)) == 6
    assert len(gmmatch.select(np.zeros((60, 4)), keep=6, labels=labels)) == 6


@pytest.mark.parametrize(
    "values",
    [
        np.array([3, 1, 3, 2]),
        np.array([-7, -9, -7], np.int8),
        np.array([2**63, 2**64 - 1, 2**63], np.uint64),
        np.array([2**63 - 1, 2**63 - 2, 2**63 - 1]),
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([0, 10**12, 5]),
        np.array([True, False, True]),
        np.array(["b", "a", "b"]),
        np.array([], np.int64),
    ],
    ids=str,
)
def test_classes_are_numbered_as_numpy_does(values):
    classes, codes = number_classes(values)
    expected, places = np.unique(values, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, places)
    assert classes.dtype == values.dtype
    assert codes.dtype == np.int64


@given(st.lists(st.integers(-70_000, 70_000), max_size=200))
def test_groups_keep_the_order_of_their_members(codes):
    codes = np.array(codes, np.int64)
    np.testing.assert_array_equal(by_group(codes), np.argsort(codes, kind="stable"))
