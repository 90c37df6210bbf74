"""Shares of classes where rows were judged: each statement against a slow simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gmmatch.compute.keys import row_keys
from gmmatch.facts import Evidence
from gmmatch.matching.budgets import Weights
from gmmatch.matching.groups import Group, Shares
from gmmatch.selectors.groups import share_out


def evidence_of(wrong: Any, far: Any = (), clumped: Any = ()) -> Evidence:
    n = len(wrong)
    away, dense = np.zeros(n, bool), np.zeros(n, bool)
    away[list(far)], dense[list(clumped)] = True, True
    wrong = np.asarray(wrong, float)
    tiers = np.where(away | dense, 2, np.where(wrong >= 0.5, 1, 0)).astype(np.int8)
    zeros = np.zeros(n)
    return Evidence(
        tiers=tiers,
        wrong=wrong,
        suggested=np.zeros(n, np.int64),
        likely=zeros,
        outside=zeros,
        outlier=np.where(away, 0.9, 0.1),
        far=away,
        clumped=dense,
        labels_judged=True,
    )


def classes(codes: np.ndarray, named: bool = True) -> list[Group]:
    rows = np.arange(float(len(codes)))[:, None]
    n_classes = int(codes.max()) + 1
    return [
        Group(rows, np.flatnonzero(codes == code), code if named else None, (0, code), n_classes)
        for code in range(n_classes)
    ]


def order_of(shares: Shares) -> list[int]:
    """Return all picks in order, as a method that takes its competing rows as they come."""
    picked = [
        np.r_[own[:count], after, shares.rest[shares.rest_groups == code]]
        for code, (own, count, after) in enumerate(
            zip(shares.members, shares.budgets.tolist(), shares.followers, strict=True)
        )
    ]
    return shares.merge(picked).tolist()


def shared(codes: np.ndarray, evidence: Evidence, k: int, most: Any = None, named: bool = True) -> Shares:
    sizes = np.bincount(codes)
    return share_out(
        classes(codes, named), Weights(sizes), sizes if most is None else np.array(most), k, evidence
    )


def simulated(codes: np.ndarray, evidence: Evidence, k: int) -> list[int]:
    """Return the picks one by one, by the rule in words.

    Each class has a queue: its trusted rows (of a class without one, the least doubtful), then as many of its
    least doubtful others as are expected to be right. The next pick is of the class with the largest
    size / (2 * picks + 1), every class's first pick before all others'. Then all other rows, by doubt.
    """
    doubt, sizes, queues, rest = evidence.doubt, np.bincount(codes), [], []
    for code in range(len(sizes)):
        own = np.flatnonzero(codes == code)
        least = sorted(own, key=lambda row: (doubt[row], row))
        first = [row for row in own if evidence.tiers[row] == 0] or least[:1]
        others = [row for row in least if row not in first]
        inside = [row for row in others if not (evidence.far[row] or evidence.clumped[row])]
        right = int(np.floor(sum(1 - evidence.wrong[row] for row in inside) + 1e-6))
        queues.append(first + others[:right])
        rest += others[right:]
    counts, found = [0] * len(sizes), []
    while len(found) < min(k, sum(map(len, queues))):
        ready = [code for code in range(len(sizes)) if counts[code] < len(queues[code])]
        code = max(ready, key=lambda c: (counts[c] == 0, sizes[c] / (2 * counts[c] + 1), -c))
        found.append(int(queues[code][counts[code]]))
        counts[code] += 1
    rest.sort(key=lambda row: (doubt[row], row))
    return (found + [int(row) for row in rest])[:k]


def random_case(seed: int) -> tuple[np.ndarray, Evidence]:
    rng = np.random.default_rng(seed)
    codes = np.r_[np.arange(4), rng.choice(4, 60, p=[0.5, 0.3, 0.15, 0.05])]
    doubtful = rng.random(4)[codes] < rng.random(64)
    wrong = np.where(doubtful, rng.uniform(0, 0.4, 64), rng.uniform(0.5, 1.0, 64)).round(3)
    far, clumped = np.flatnonzero(rng.random(64) < 0.1), np.flatnonzero(rng.random(64) < 0.05)
    return codes, evidence_of(wrong, far, clumped)


@pytest.mark.parametrize("seed", range(12))
def test_the_picks_are_those_of_the_rule_one_by_one(seed: int) -> None:
    codes, evidence = random_case(seed)
    for k in (4, 7, 20, 40, 55, 64):
        assert order_of(shared(codes, evidence, k)) == simulated(codes, evidence, k)


@pytest.mark.parametrize("seed", range(12))
def test_a_smaller_budget_is_a_prefix_of_a_larger_one_and_no_class_starves(seed: int) -> None:
    codes, evidence = random_case(seed)
    everything = order_of(shared(codes, evidence, 64))
    assert sorted(everything) == list(range(64))
    for k in range(4, 65):
        found = order_of(shared(codes, evidence, k))
        assert found == everything[:k]
        assert set(codes[found]) == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(12))
def test_no_more_doubtful_rows_than_are_expected_right_come_before_those_that_follow(seed: int) -> None:
    codes, evidence = random_case(seed)
    shares = shared(codes, evidence, 64)
    inside = ~(evidence.far | evidence.clumped)
    for code, (own, after) in enumerate(zip(shares.members, shares.followers, strict=True)):
        others = np.setdiff1d(np.flatnonzero(codes == code), own)
        expected = (1 - evidence.wrong[others[inside[others]]]).sum()
        assert len(after) == min(np.floor(expected + 1e-6), len(others))
        left = np.setdiff1d(others, after)
        if len(left) and len(after):
            assert evidence.doubt[after].max() <= evidence.doubt[left].min()
    assert (np.diff(evidence.doubt[shares.rest]) >= 0).all()


def test_a_class_gets_its_share_from_its_least_doubtful_rows() -> None:
    # Two classes of 50; of the second four rows are trusted and the others as likely right as not.
    codes = np.repeat([0, 1], 50)
    wrong = np.r_[np.full(50, 0.01), np.full(4, 0.1), np.linspace(0.5, 0.6, 46)]
    shares = shared(codes, evidence_of(wrong), 40)
    assert shares.budgets.tolist() == [20, 4]
    assert shares.followers[1].tolist() == list(range(54, 70))
    # Expected right are 46 * 0.45 = 20.7 of them: with more picks, they do not come before the others.
    shares = shared(codes, evidence_of(wrong), 60)
    assert [len(after) for after in shares.followers] == [0, 20]
    assert shares.budgets.tolist() == [36, 4]


def test_a_class_of_which_nothing_is_believed_has_one_pick_and_then_what_may_be_right() -> None:
    codes = np.repeat([0, 1], [60, 20])
    wrong = np.r_[np.zeros(60), np.linspace(0.9, 1.0, 20)]
    shares = shared(codes, evidence_of(wrong), 40)
    assert shares.members[1].tolist() == [60]
    assert shares.budgets.tolist() == [39, 1]
    assert [len(after) for after in shares.followers] == [0, 0]
    assert len(shared(codes, evidence_of(wrong), 70).rest) == 70 - 60 - 1


def test_rows_far_outside_are_not_expected_right_however_likely_their_label_is() -> None:
    codes = np.repeat([0, 1], 20)
    evidence = evidence_of(np.zeros(40), far=range(22, 40))
    shares = shared(codes, evidence, 30)
    assert shares.budgets.tolist() == [20, 2]
    assert [len(after) for after in shares.followers] == [0, 0]
    assert sorted(shares.rest) == list(range(22, 30))


def test_no_class_gives_more_than_it_may() -> None:
    codes = np.repeat([0, 1, 2], 20)
    evidence = evidence_of(np.tile(np.r_[np.zeros(8), np.full(12, 0.6)], 3))
    shares = shared(codes, evidence, 30, most=[20, 7, 3])
    found = np.array(order_of(shares))
    assert np.bincount(codes[found]).tolist() == [20, 7, 3]
    assert shares.most.tolist() == [8, 7, 3]


def test_without_labels_trusted_rows_of_all_clusters_come_first() -> None:
    codes = np.repeat([0, 1], 20)
    evidence = evidence_of(np.zeros(40), far=range(25, 40))
    shares = shared(codes, evidence, 32, named=False)
    assert shares.budgets.tolist() == [20, 5]
    assert len(shares.rest) == 7
    assert [len(after) for after in shares.followers] == [0, 0]


def test_without_a_verdict_all_rows_compete() -> None:
    codes = np.repeat([0, 1], [30, 10])
    sizes = np.bincount(codes)
    shares = share_out(classes(codes), Weights(sizes), sizes, 20, None)
    assert shares.budgets.tolist() == [15, 5]
    assert [len(own) for own in shares.members] == [30, 10]
    assert len(shares.rest) == 0


def test_rows_of_the_same_doubt_follow_in_an_order_that_is_their_own() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    evidence = evidence_of(np.full(300, 0.5))
    order = rng.permutation(300)
    picked = []
    for shuffled in (np.arange(300), order):
        groups = [Group(rows[shuffled], np.arange(300), "a", (0, 0), 1)]
        keys = row_keys(np.ascontiguousarray(rows[shuffled]))
        shares = share_out(groups, Weights(np.array([300])), np.array([300]), 200, evidence, keys)
        found = [*shares.members[0][: shares.budgets[0]], *shares.followers[0], *shares.rest]
        picked.append(shuffled[np.array(found)].tolist())
    assert len(picked[0]) == 200
    assert picked[0] == picked[1]
    assert picked[0] != sorted(picked[0])


def test_filler_that_is_mostly_wrong_and_classes_that_got_less_are_named() -> None:
    codes = np.repeat([0, 1], 50)
    wrong = np.zeros(100)
    wrong[60:] = 0.98  # of class 1, ten rows are believed
    evidence = evidence_of(wrong)
    assert shared(codes, evidence, 20).notes == ()
    (note,) = shared(codes, evidence, 40).notes
    assert note == "too few rows are believed for these classes to have their share of picks: 1 (10 of 20)"
    filler, poor = shared(codes, evidence, 90).notes
    assert filler == (
        "30 picks come after the 60 that are believed, and some 29 of them are probably wrong; keep 60 rows"
        " or fewer, correct labels with fix, or pass a reference"
    )
    assert poor.endswith("picks: 1 (40 of 45)")
    many = np.repeat(np.arange(5), 20)
    (poor,) = shared(many, evidence_of(np.where(np.arange(100) % 20 < 10, 0.0, 0.99) * (many > 0)), 60).notes
    assert poor.endswith(" and 1 more")
