"""Budgets and the order of picks, against the sequence written out with fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.matching import budgets as budgets_module
from gmmatch.matching.budgets import Weights, advise, class_budgets, sequence, share, split, weigh

sizes = st.lists(st.integers(1, 10_000), min_size=1, max_size=30)
LONG_TAIL = np.array([400, 160, 60, 25, 10, 4, 1, 1])


def written_out(weights: list[Any], power: int, tiers: np.ndarray) -> list[tuple[int, int]]:
    """Return classes and turns of the whole sequence: every pick on its own, by its exact fraction."""
    picks = []
    for code, rows in enumerate(np.cumsum(tiers, axis=0).T.tolist()):
        for turn in range(rows[-1]):
            tier = sum(turn >= end for end in rows)
            stretch = (1, tier) if turn else (0, 0)
            picks.append((stretch, Fraction((2 * turn + 1) ** power) / Fraction(weights[code]), code, turn))
    return [(code, turn) for _, _, code, turn in sorted(picks)]


def one_at_a_time(size: list[int], k: int) -> list[int]:
    """Give the picks out one after the other, each to the class of the largest quotient (Sainte-Laguë)."""
    counts = [1] * len(size)
    for _ in range(k - len(size)):
        able = [code for code in range(len(size)) if counts[code] < size[code]]
        counts[min(able, key=lambda code: (-Fraction(size[code], 2 * counts[code] + 1), code))] += 1
    return counts


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_sequence_and_all_its_cuts_are_those_of_exact_fractions(data: st.DataObject) -> None:
    n_classes = data.draw(st.integers(1, 6))
    tiers = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 15), min_size=n_classes, max_size=n_classes), min_size=1, max_size=3
            )
        )
    )
    number = st.one_of(st.integers(1, 30), st.integers(2**31, 2**32 - 1))
    if data.draw(st.booleans()):
        number = st.floats(1e-3, 1e3)
    values = data.draw(st.lists(number, min_size=n_classes, max_size=n_classes))
    power = 1 if isinstance(values[0], float) else data.draw(st.integers(1, 2))
    weights = Weights(np.array(values), power)
    expected = written_out(values, power, tiers)
    classes, turns = sequence(weights, tiers)
    if not isinstance(values[0], float):  # rounding may make ties of floats
        assert list(zip(classes.tolist(), turns.tolist(), strict=True)) == expected
    for k in range(len(expected) + 1):
        assert share(weights, tiers, k).tolist() == np.bincount(classes[:k], minlength=n_classes).tolist()


@given(sizes, st.data())
def test_budgets_add_up_fit_and_leave_no_class_out(size: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(len(size), sum(size)))
    for power in (1, 2):
        found = class_budgets(size, k, power)
        assert found.sum() == k
        assert (found >= 1).all()
        assert (found <= size).all()


@settings(deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=12), st.data())
def test_budgets_are_given_out_one_at_a_time(size: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(len(size), sum(size)))
    assert class_budgets(size, k).tolist() == one_at_a_time(size, k)


@pytest.mark.parametrize("power", [1, 2])
def test_every_budget_is_a_prefix_of_every_larger_one_on_a_long_tail(power: int) -> None:
    classes, _ = sequence(Weights(LONG_TAIL, power), LONG_TAIL[None])
    for k in range(len(LONG_TAIL), LONG_TAIL.sum() + 1):
        counts = np.bincount(classes[:k], minlength=len(LONG_TAIL))
        np.testing.assert_array_equal(counts, class_budgets(LONG_TAIL, k, power))
        assert counts.min() >= 1
    assert classes[: len(LONG_TAIL)].tolist() == list(range(len(LONG_TAIL)))  # the heaviest first


@pytest.mark.parametrize("gap", [2, -2])
def test_quotients_that_floats_cannot_tell_apart_are_told_apart(gap: int) -> None:
    first, second = 2**32 - 5, 2**32 - 17
    # Odd numerators whose fractions differ by 2 / (first * second) alone.
    above = gap * pow(second, -1, first) % first
    above += first * (above % 2 == 0)
    below = (above * second - gap) // first
    assert above * second - below * first == gap
    assert above / first == below / second
    turns = np.array([(above - 1) // 2, (below - 1) // 2])
    order = np.lexsort(Weights(np.array([first, second])).due(np.array([0, 1]), turns))
    assert order.tolist() == ([1, 0] if gap > 0 else [0, 1])


def test_a_class_without_trusted_rows_has_a_pick_and_the_next_tier_waits_for_the_first() -> None:
    tiers = np.array([[6, 3, 0], [4, 7, 10]])
    assert share(Weights(np.array([10, 10, 10])), tiers, 10).tolist() == [6, 3, 1]
    assert share(Weights(np.array([10, 10, 10])), tiers, 12).tolist() == [6, 3, 3]


def test_a_class_without_rows_and_without_weight_has_no_picks() -> None:
    sizes = np.array([0, 3, 5])
    assert share(Weights(sizes), sizes[None], 4).tolist() == [0, 2, 2]
    assert sequence(Weights(sizes), sizes[None])[0].tolist() == [2, 1, 2, 1, 2, 2, 1, 2]


def test_the_pieces_that_are_sorted_at_once_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sequence(Weights(LONG_TAIL, 2), LONG_TAIL[None])
    monkeypatch.setattr(budgets_module, "_SORTED_AT_ONCE", 7)
    for expected, found in zip(whole, sequence(Weights(LONG_TAIL, 2), LONG_TAIL[None]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_many_classes_and_many_picks_are_shared_quickly() -> None:
    rng = np.random.default_rng(0)
    size = rng.integers(1, 100_000, 100_000)
    found = class_budgets(size, 100_000_000)
    assert found.sum() == 100_000_000
    # No pick that was left out is due before one that was kept: quotients at the cut.
    more = found > 1
    last_kept = (size[more] / (2.0 * found[more] - 1.0)).min()
    best_left = (size / (2.0 * found + 1.0)).max()
    assert last_kept >= best_left * (1 - 1e-12)


def test_too_small_a_budget_is_refused() -> None:
    with pytest.raises(InvalidInput, match="keep at least 4 rows, or pass by_class=False"):
        class_budgets([5, 5, 5, 5], 3)


@pytest.mark.parametrize(
    ("given_as", "message"),
    [
        ({"a": 3}, "budgets has no class 'b'"),
        ({"a": 3, "b": 1, "c": 2}, "budgets names class 'c', which no row has"),
    ],
)
def test_budgets_of_other_classes_are_refused(given_as: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        weigh(given_as, ["a", "b"], np.array([9, 3]), 5)


@pytest.mark.parametrize(
    ("given_as", "expected", "told"),
    [
        ({"a": 3, "b": 2}, [3, 2], None),  # counts: they add up
        ({"a": 1, "b": 4}, [2, 3], "are more than some class has"),  # capped by what the class has
        ({"a": 2, "b": 6}, [2, 3], "would add up to 8 rows, and 5 are kept"),
        ({"a": 4, "b": 1.0}, [4, 1], None),
    ],
)
def test_counts_are_kept_to_and_other_numbers_are_weights(
    given_as: dict[str, float], expected: list[int], told: str | None
) -> None:
    size = np.array([9, 3])
    weights, most = weigh(given_as, ["a", "b"], size, 5)
    assert share(weights, most[None], 5).tolist() == expected
    said = advise(given_as, np.array(["a", "b"]), size, 5)
    assert said is None if told is None else told in str(said)


def test_counts_hold_whatever_is_trusted() -> None:
    trusted, others = np.array([1, 50]), np.array([19, 0])
    weights, most = weigh({"a": 10, "b": 10}, ["a", "b"], trusted + others, 20)
    assert share(weights, np.minimum([trusted, others], most), 20).tolist() == [10, 10]


@pytest.mark.parametrize("value", [0, -1, 0.0, float("nan"), float("inf"), 5e-324, 10**400, "many", True])
def test_weights_that_are_not_positive_numbers_are_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"or positive weights; got .* for class 'a'"):
        weigh({"a": value, "b": 1}, ["a", "b"], np.array([9, 3]), 5)


def test_split_keeps_the_order_of_the_rows() -> None:
    codes = np.array([2, 0, 2, 1, 0])
    assert [part.tolist() for part in split(codes, 3)] == [[1, 4], [3], [0, 2]]


def test_the_sequence_by_square_roots_written_out_by_hand() -> None:
    # Due at (2 turn + 1)^2 / size: 1 of nine rows, then 9/9, 25/9, 49/9; of four rows 9/4, 25/4, 49/4.
    classes, turns = sequence(Weights(np.array([9, 4]), 2), np.array([[9, 4]]))
    assert classes.tolist()[:7] == [0, 1, 0, 1, 0, 0, 1]
    assert turns.tolist()[:7] == [0, 0, 1, 1, 2, 3, 2]
    assert class_budgets([9, 4], 7, 2).tolist() == [4, 3]


@pytest.mark.parametrize(
    ("budgets", "sizes"), [("sqrt", [900, 45]), ("equal", [900, 45]), ("proportional", [450, 45])]
)
def test_nothing_is_advised_where_rare_classes_have_their_picks(budgets: str, sizes: list[int]) -> None:
    assert advise(budgets, ["cat", "ox"], np.array(sizes), 100) is None
