import numpy as np
import pytest
from sklearn.datasets import load_digits

import gmmatch
from gmmatch.errors import InvalidParameter
from gmmatch.lab.experiments.contenders import (
    CONTENDERS,
    compared_methods,
    find_contender,
    find_variant,
    out_of_fold,
)


@pytest.fixture(scope="module")
def digits():
    rows, labels = load_digits(return_X_y=True)
    rows, labels = rows[:600].astype(np.float32), labels[:600].astype(np.int64)
    given, wrong = gmmatch.corrupt.corrupt_labels(labels, 0.2, rng=0)
    return rows, given.astype(np.int64), wrong, out_of_fold(rows, given)


def picks(name, digits, keep, seed=0):
    rows, labels, _, chances = digits
    return find_contender(name).pick(rows, labels, keep, seed, {}, lambda: chances)[0]


@pytest.mark.parametrize("name", [*CONTENDERS, "random+guard", "small-loss"])
def test_every_contender_keeps_what_is_asked_and_smaller_budgets_come_first(name, digits) -> None:
    if name.startswith("cleanlab"):
        pytest.importorskip("cleanlab")
    large, small = picks(name, digits, 0.9), picks(name, digits, 0.1)
    assert len(large) == len(set(large.tolist())) == 540
    np.testing.assert_array_equal(large[:60], small)
    assert find_contender(name).nested


@pytest.mark.parametrize(("name", "share"), [("small-loss", 0.02), ("cleanlab+random", 0.05)])
def test_what_people_do_today_takes_wrong_labels_out(name, share, digits) -> None:
    pytest.importorskip("cleanlab")
    assert digits[2][picks(name, digits, 0.3)].mean() <= share < digits[2].mean()


def test_variants_are_the_method_with_other_parameters(digits) -> None:
    rows, labels, _, _ = digits
    for name, method, guard in (
        ("random+guard", "random", "auto"),
        ("gm-matching-unguarded", "gm-matching", "off"),
    ):
        expected = gmmatch.select(
            rows, keep=0.1, labels=labels, method=method, guard=guard, random_state=3
        ).indices
        np.testing.assert_array_equal(picks(name, digits, 0.1, seed=3), expected)
    assert find_contender("herding+guard").seeded
    assert not find_contender("herding").seeded


def test_an_unknown_contender_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidParameter, match="did you mean 'herding'"):
        find_contender("hearding")


def test_random_with_the_guard_is_compared():
    assert compared_methods().index("random+guard") == compared_methods().index("random") + 1
    assert find_variant("random+guard")[1] == {"guard": "auto"}
    for word in ("random+", "random+off", "gm-matching-paper+guard"):
        with pytest.raises(InvalidParameter, match=r"name\+guard where it takes a guard"):
            find_variant(word)
