import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.errors import InvalidInput
from gmmatch.matching.budgets import class_budgets, interleave, split

sizes = st.lists(st.integers(1, 10_000), min_size=1, max_size=30)


@given(sizes, st.data())
def test_budgets_add_up_fit_and_leave_no_class_out(size, data):
    k = data.draw(st.integers(len(size), sum(size)))
    budgets = class_budgets(size, k)
    assert budgets.sum() == k
    assert (budgets >= 1).all()
    assert (budgets <= size).all()


@given(sizes, st.data())
def test_budgets_are_the_largest_remainders_where_no_class_is_tiny(size, data):
    k = data.draw(st.integers(len(size), sum(size)))
    shares = [n * k / sum(size) for n in size]
    if min(shares) >= 1:
        assert all(abs(b - s) < 1 for b, s in zip(class_budgets(size, k), shares, strict=True))


def test_too_small_a_budget_is_refused():
    with pytest.raises(InvalidInput, match="keep at least 4 rows, or pass by_class=False"):
        class_budgets([5, 5, 5, 5], 3)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8))
def test_every_prefix_is_proportional(lengths):
    classes, turns = interleave(lengths)
    total = sum(lengths)
    seen = np.zeros(len(lengths), dtype=int)
    for place, (code, turn) in enumerate(zip(classes, turns, strict=True), start=1):
        assert turn == seen[code]
        seen[code] += 1
        assert (np.abs(seen - np.array(lengths) * place / total) <= max(1, len(lengths) / 2)).all()
    assert seen.tolist() == lengths


def test_split_keeps_the_order_of_the_rows():
    codes = np.array([2, 0, 2, 1, 0])
    assert [part.tolist() for part in split(codes, 3)] == [[1, 4], [3], [0, 2]]
