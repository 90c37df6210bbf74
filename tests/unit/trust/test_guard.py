"""Tiers in the selectors: exact budgets, equivariance, chunking, records of what was done."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.matching.budgets import Weights
from gmmatch.matching.features import MatchedRows, unit_rows
from gmmatch.selectors import GMMatching
from gmmatch.selectors.groups import Group, share_out
from gmmatch.trust import TIERS, judge
from gmmatch.trust import labels as labels_module
from gmmatch.trust import learning as learning_module
from gmmatch.trust.lift import Lift


def make(n=900, d=16, wrong=0.25, far=0.1, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    rows = (3.0 * rng.normal(size=(3, d))[truth] / np.sqrt(2) + rng.normal(size=(n, d))).astype(np.float32)
    codes = np.where(rng.random(n) < wrong, (truth + 1) % 3, truth)
    outside = rng.random(n) < far
    rows[outside] += 50.0 * rng.normal(size=(outside.sum(), d)).astype(np.float32)
    return rows, codes, (codes == truth) & ~outside


def test_picks_are_clean_where_the_data_is_not():
    rows, labels, good = make(wrong=0.4)
    guarded = gmmatch.select(rows, 0.2, labels)
    assert good[guarded.indices].mean() > 0.97
    assert good[gmmatch.select(rows, 0.2, labels, guard="off").indices].mean() < 0.9


@pytest.mark.parametrize("method", ["gm-matching", "herding", "random", "moderate", "hard", "k-center"])
@pytest.mark.parametrize("keep", [0.05, 0.7, 0.95, 1.0])
def test_every_method_takes_trusted_rows_first_and_exactly_k(method, keep):
    rows, labels, _ = make()
    estimator = gmmatch.selectors.find_method(method).build(keep=keep, guard="auto").fit(rows, labels)
    picks, tiers = estimator.sample_indices_, estimator.tiers_
    assert len(np.unique(picks)) == len(picks) == round(keep * len(rows))
    trusted = tiers[picks] == 0
    assert (np.diff(trusted.astype(int)) <= 0).all()
    assert trusted.all() or (tiers == 0).sum() == trusted.sum()
    # Beyond the trusted rows, the order is that of suspicion, and none that is left is less suspicious.
    suspicion = estimator.selection_.evidence.suspicion
    rest = suspicion[picks[~trusted]]
    assert (np.diff(rest) >= 0).all()
    left = np.setdiff1d(np.arange(len(rows)), picks)
    if len(rest) and len(left):
        assert suspicion[left].min() >= rest.max()
    if keep == 0.05:
        plain = gmmatch.select(rows, keep, labels, method="random")
        assert (np.bincount(plain.labels) == np.bincount(labels[picks])).all()


def test_labels_in_doubt_are_unlikely_where_many_are():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 900)
    rows = (1.5 * rng.normal(size=(3, 8))[truth] + 1.6 * rng.normal(size=(900, 8))).astype(np.float32)
    labels = np.where(rng.random(900) < 0.12, (truth + 1) % 3, truth)
    verdict = judge(rows, labels, 3, 0)
    assert verdict.rounds == 1
    passed = verdict.gate.passed
    unlikely, odds = np.zeros(900, dtype=bool), np.zeros(900)
    for row, (told, label) in enumerate(zip(verdict.labels.probabilities, labels, strict=True)):
        likely = [code for code in range(3) if told[code] >= verdict.labels.thresholds[code]]
        unlikely[row] = passed[row] and bool(likely) and max(likely, key=lambda code: told[code]) != label
        fit = told / verdict.labels.thresholds
        odds[row] = np.delete(fit, label).max() / fit[label]
    share = unlikely.sum() / passed.sum()
    # By Bayes' rule: a label whose best other class is so many times as likely is wrong at these odds.
    doubtful = passed & ~unlikely & (odds * share / (1 - share) > 1 / 3)
    np.testing.assert_array_equal(verdict.tiers == 1, unlikely | doubtful)
    assert doubtful.sum() > 10
    assert (labels != truth)[doubtful].mean() > 0.25


@pytest.mark.parametrize("batch_size", [None, 64])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_budget_beyond_the_trusted_rows_reaches_into_the_next_tiers(batch_size, labelled):
    rows, labels, _ = make()
    selection = gmmatch.select(rows, 1.0, labels if labelled else None, batch_size=batch_size)
    facts = selection.facts.guard
    assert sorted(selection.indices) == list(range(len(rows)))
    assert facts["picked"] == facts["tiers"]
    assert sum(facts["tiers"].values()) == len(rows)


@pytest.mark.parametrize("labelled", [True, False])
def test_another_order_of_the_rows_gives_the_same_tiers_and_picks(labelled):
    rows, labels, _ = make()
    order = np.random.default_rng(1).permutation(len(rows))
    plain = GMMatching(0.2).fit(rows, labels if labelled else None)
    moved = GMMatching(0.2).fit(rows[order], labels[order] if labelled else None)
    assert (moved.tiers_ == plain.tiers_[order]).all()
    assert set(order[moved.sample_indices_]) == set(plain.sample_indices_)


@pytest.mark.parametrize("kind", ["memmap", "float64", "fortran", "list"])
def test_how_the_rows_are_held_does_not_matter(kind, tmp_path):
    rows, labels, _ = make()
    expected = gmmatch.select(rows, 0.2, labels).indices.tolist()
    if kind == "memmap":
        np.save(tmp_path / "rows.npy", rows)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    elif kind == "float64":
        rows = rows.astype(np.float64)
    elif kind == "fortran":
        rows = np.asfortranarray(rows)
    else:
        rows = rows.tolist()
    assert gmmatch.select(rows, 0.2, labels).indices.tolist() == expected


class Counted:
    """Rows on a slow disk: every value that is read counts."""

    def __init__(self, rows):
        self.rows, self.read = rows, 0
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, chosen):
        read = np.array(self.rows[chosen])
        assert len(read) <= 1 << 14, "more than the sample at once"
        self.read += read.shape[0]
        return read


def many(monkeypatch, n=20_000, d=96, wrong=0.1, gap=0.7):
    """Return rows of three classes, one of them rare, of which the guard learns from a sample."""
    monkeypatch.setattr(learning_module, "_SAMPLE_ROWS", 4096)
    monkeypatch.setattr(learning_module, "_ROWS_PER_FEATURE", 1)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n)
    truth[:12] = 2
    rows = rng.normal(size=(n, d)) + gap * rng.normal(size=(3, d))[truth]
    codes = np.where((rng.random(n) < wrong) & (truth < 2), 1 - truth, truth)
    rows[100:400] += 40.0
    order = rng.permutation(n)
    return rows.astype(np.float32)[order], codes[order], truth[order]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("wrong", "gap", "rounds"), [(0.1, 0.7, 1), (0.3, 0.4, 2)])
def test_many_rows_are_read_once_beside_their_hashes_and_the_sample(kept, wrong, gap, rounds, monkeypatch):
    if not kept:
        monkeypatch.setattr(labels_module, "_MOST_KEPT", 0)
    rows, codes, _ = many(monkeypatch, wrong=wrong, gap=gap)
    counted = Counted(rows)
    trust = judge(counted, codes, 3, seed=0)
    assert trust.rounds == rounds
    assert trust.reads == 2
    assert counted.read == trust.reads * len(rows) + trust.sample
    assert 4096 <= trust.sample <= 4096 + 12
    again = Counted(rows)
    known = judge(again, codes, 3, seed=0, keys=row_keys(rows, 0))
    assert known.reads == 1
    assert again.read == len(rows) + trust.sample
    assert (known.tiers == trust.tiers).all()


@pytest.mark.parametrize("labelled", [True, False])
def test_a_sample_teaches_what_all_rows_do(labelled, monkeypatch):
    rows, codes, truth = many(monkeypatch)
    given = (codes, 3) if labelled else (None, 1)
    found = judge(rows, *given, seed=0, labelled=labelled)
    order = np.random.default_rng(1).permutation(len(rows))
    moved = judge(rows[order], codes[order] if labelled else None, given[1], seed=0, labelled=labelled)
    assert (
        moved.tiers == found.tiers[order]
    ).mean() > 0.9999  # sums in another order differ in the last bits
    monkeypatch.setattr(learning_module, "_SAMPLE_ROWS", len(rows))
    whole = judge(rows, *given, seed=0, labelled=labelled)
    assert whole.sample is None
    assert (whole.tiers == found.tiers).mean() > 0.99
    if labelled:
        good = (codes == truth) & ~whole.gate.far
        assert good[found.tiers == 0].mean() > 0.995


def test_the_means_of_the_trusted_rows_come_with_the_verdict(monkeypatch):
    rows, codes, _ = many(monkeypatch, wrong=0.2, gap=0.3)
    trust = judge(rows, codes, 3, seed=0)
    view = MatchedRows(rows, trust)
    features = view[:]
    for code in range(3):
        own = (codes == code) & (trust.tiers == 0)
        np.testing.assert_allclose(view.means[code], features[own].mean(axis=0, dtype=float), atol=1e-6)


def test_a_selection_from_many_rows_takes_three_reads_on_any_number_of_threads(monkeypatch):
    rows, codes, truth = many(monkeypatch, n=40_000, d=32)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        found.append(gmmatch.select(rows, 0.05, codes))
    assert found[0].indices.tolist() == found[1].indices.tolist()
    facts = found[0].facts
    assert facts.reads == gmmatch.plan(rows, 0.05, labels=codes).reads == 3
    assert facts.center == "mean"
    assert facts.guard["sample"] == found[1].facts.guard["sample"] >= 4096
    assert (codes == truth)[found[0].indices].mean() > 0.99


def test_the_number_of_threads_does_not_matter(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rows, labels, _ = make(n=3000, d=64)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        with threadpoolctl.threadpool_limits(threads):
            found.append(gmmatch.select(rows, 0.2, labels))
    assert found[0].indices.tolist() == found[1].indices.tolist()
    assert found[0].facts == found[1].facts


def test_results_are_told_in_the_rows_own_coordinates():
    rows, labels, _ = make()
    estimator = GMMatching(0.1).fit(rows, labels)
    assert estimator.centers_.shape == (3, rows.shape[1])
    for code in range(3):
        mine = labels[estimator.sample_indices_] == code
        picked = rows[estimator.sample_indices_[mine]].astype(np.float64)
        center = estimator.centers_[code]
        np.testing.assert_allclose(
            estimator.distances_[mine], np.linalg.norm(picked - center, axis=1), rtol=1e-5
        )
        np.testing.assert_allclose(
            estimator.scores_[mine][-1], np.linalg.norm(picked.mean(axis=0) - center), rtol=1e-5
        )


def test_the_record_says_what_was_done_and_why():
    rows, labels, _ = make()
    guard = gmmatch.select(rows, 0.1, labels).facts.guard
    assert tuple(guard["tiers"]) == TIERS
    assert guard["features"] == "label-aware"
    assert guard["reads"] <= 8
    assert guard["labels"]["used"]
    assert guard["gate"]["far"] > 0
    without = gmmatch.select(rows, 0.1).facts.guard
    assert without["labels"] == {"used": False, "reason": "no labels"}
    assert gmmatch.select(rows, 0.1, labels, guard="off").facts.guard == {"mode": "off"}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [(np.zeros(300), "one class only"), (np.arange(300) // 2, "fewer than 5 rows per class on average")],
)
def test_labels_that_cannot_be_judged_leave_the_gate(labels, reason):
    rows = make(n=300)[0]
    selection = gmmatch.select(rows, 200, labels)
    assert len(selection) == 200
    assert selection.facts.guard["labels"] == {"used": False, "reason": reason}
    assert gmmatch.label_aware(rows, labels).shape == (300, rows.shape[1] + len(np.unique(labels)))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (12, 1), (40, 200)])
def test_the_smallest_inputs_work(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    labels = np.arange(len(rows)) % 2
    k = max(len(np.unique(labels)), len(rows) // 2)
    assert len(gmmatch.select(rows, k, labels)) == k
    assert len(gmmatch.suspects(rows, labels)) == len(rows)


def test_a_given_center_is_matched_in_its_own_coordinates():
    rows, labels, _ = make()
    points = {code: rows[labels == code].mean(axis=0) for code in range(3)}
    estimator = GMMatching(0.1, center=points).fit(rows, labels)
    np.testing.assert_allclose(estimator.centers_, np.stack(list(points.values())))
    assert estimator.selection_.facts.guard["features"] == "as given"


def test_rows_that_must_not_be_looked_at_change_nothing():
    rows, labels, _ = make()
    usable = np.ones(len(rows), dtype=bool)
    usable[::7] = False
    damaged = rows.copy()
    damaged[~usable] = np.nan
    found = GMMatching(0.1).fit(damaged, labels, usable=usable)
    alone = GMMatching(0.1).fit(rows[usable], labels[usable])
    assert np.flatnonzero(usable)[alone.sample_indices_].tolist() == found.sample_indices_.tolist()


def test_features_of_some_rows_are_those_of_all():
    rows, labels, _ = make()
    trust = judge(rows, labels, 3, seed=0)
    view = MatchedRows(rows, trust)
    features = gmmatch.label_aware(rows, labels)
    assert view.shape == features.shape == (len(rows), rows.shape[1] + 3)
    some = np.array([5, 1, 700])
    assert (view[some] == features[some]).all()
    assert (view[10:20] == features[10:20]).all()
    assert (view[3] == features[3]).all()


def test_features_are_the_formula():
    rows, labels, _ = make(far=0.0)
    trust = judge(rows, labels, 3, seed=0)
    probabilities = trust.labels.probabilities
    passed = trust.gate.passed
    labelled = probabilities - probabilities[passed].mean(axis=0)
    labelled /= np.sqrt((labelled[passed] ** 2).sum(axis=1).mean())
    features = gmmatch.label_aware(rows, labels, weight=3.0)
    np.testing.assert_allclose(features[:, :16], (rows - trust.origin) / trust.scale, atol=1e-5)
    np.testing.assert_allclose(features[:, 16:], 3.0 * labelled, atol=1e-5)


@pytest.mark.parametrize("lifted", [False, True])
def test_rows_are_chosen_from_a_view_as_from_an_array(lifted):
    rows, labels, _ = make(n=120)
    trust = judge(rows, labels, 3, seed=0)
    lift = Lift.draw(trust.origin, 2.0, 8, 1) if lifted else None
    view = MatchedRows(rows, trust, lift, weight=1.5)
    told = trust.labels.probabilities
    scaled = (rows - trust.origin) / trust.scale
    parts = [scaled] if lift is None else [scaled / 4, lift(rows)]  # rows count a quarter beside their lift
    features = np.hstack([*parts, (told - trust.labels.mean) * 1.5 / trust.labels.scale]).astype(np.float32)
    assert (view.shape, len(view), view.means) == (features.shape, 120, None)
    mask = np.arange(120) % 3 == 0
    for chosen in (slice(None), slice(100, 3, -7), mask, np.array([5, -1, 7]), [4, 2], -2, np.int64(7)):
        np.testing.assert_allclose(view[chosen], features[chosen], rtol=1e-4, atol=1e-5)
        assert view[chosen].shape == features[chosen].shape
    np.testing.assert_allclose(view.to_rows(features[3].astype(float)), rows[3], rtol=1e-4, atol=1e-5)
    computed = replace(trust, labels=replace(trust.labels, probabilities=None))
    np.testing.assert_allclose(MatchedRows(rows, computed, lift, 1.5)[:], features, rtol=1e-4, atol=1e-5)


def test_probabilities_that_are_all_alike_say_nothing():
    rows, labels, _ = make(n=120)
    trust = judge(rows, labels, 3, seed=0)
    trust = replace(trust, labels=replace(trust.labels, scale=0.0))
    assert (MatchedRows(rows, trust)[:][:, rows.shape[1] :] == 0).all()
    assert gmmatch.label_aware(rows, labels, folds=2, weight=0).shape == (120, rows.shape[1] + 3)


def test_rows_of_length_one_keep_their_direction():
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    rows[7] = 0.0
    scaled = unit_rows(rows)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(scaled, rows / np.where(lengths > 0, lengths, 1), rtol=1e-6)
    assert scaled.dtype == np.float32


@pytest.mark.parametrize("params", [{"weight": -1}, {"weight": float("nan")}, {"folds": 1}, {"folds": 2.5}])
def test_parameters_that_mean_nothing_are_refused(params):
    rows, labels, _ = make(n=50)
    with pytest.raises(gmmatch.errors.InvalidParameter, match=next(iter(params))):
        gmmatch.label_aware(rows, labels, **params)


def test_without_classes_the_gate_alone_decides():
    rows, labels, _ = make()
    selection = gmmatch.select(rows, 0.1, labels, by_class=False)
    assert selection.indices.tolist() == gmmatch.select(rows, 0.1).indices.tolist()


def test_a_verdict_that_is_there_is_used_and_nothing_is_judged_again(monkeypatch):
    rows, labels, _ = make()
    expected = GMMatching(0.1).fit(rows, labels).selection_
    verdict = judge(rows, labels, 3, seed=0)
    monkeypatch.setattr("gmmatch.selectors.base.judge", None)
    found = GMMatching(0.1).fit(rows, labels, verdict=verdict).selection_
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.facts == expected.facts


@pytest.mark.parametrize(("n_rows", "n_columns", "n_classes"), [(3000, 1, 5), (2000, 64, 10), (300, 4, 3)])
def test_labels_that_have_nothing_to_do_with_the_rows_are_not_judged(n_rows, n_columns, n_classes):
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(n_rows, n_columns)), np.arange(n_rows) % n_classes
    found = judge(rows, codes, n_classes, 0)
    assert found.reason == "the classes cannot be told from the rows"
    assert found.summary()["labels"] == {"used": False, "reason": found.reason}
    assert not (found.tiers == 1).any()
    wrong = rng.random(n_rows) < 0.4
    rows += rng.normal(size=(n_classes, n_columns))[codes]
    codes = np.where(wrong, rng.integers(0, n_classes, n_rows), codes)
    if n_columns > 1:
        assert judge(rows, codes, n_classes, 0).reason is None


@pytest.mark.parametrize("features", [1, 2, 3])
def test_labels_by_chance_are_not_judged_in_few_features_and_the_order_of_rows_does_not_matter(features):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, labels = rng.normal(size=(400, features)), rng.integers(0, 30, 400)
        found = gmmatch.select(rows, 80, labels)
        assert found.facts.guard["labels"]["reason"] == "the classes cannot be told from the rows"
        assert "the labels were not judged: the classes cannot be told" in found.facts.hint
        order = rng.permutation(400)
        assert (
            order[gmmatch.select(rows[order], 80, labels[order]).indices].tolist() == found.indices.tolist()
        )


def test_rows_of_the_same_suspicion_follow_in_an_order_that_is_their_own():
    # Ten rows of each class that no head saw, and no gate tells apart: all wait with a suspicion of zero.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    tiers = np.full(300, 1, np.int8)
    evidence = SimpleNamespace(tiers=tiers, suspicion=np.zeros(300))
    order = rng.permutation(300)
    picked = []
    for shuffled in (np.arange(300), order):
        groups = [Group(rows[shuffled], np.arange(300), "a", (0, 0), 1)]
        keys = row_keys(np.ascontiguousarray(rows[shuffled]))
        shares = share_out(groups, Weights(np.array([300])), np.array([300]), 50, evidence, keys)
        first = shares.members[0].tolist()
        picked.append(shuffled[np.array([*first, *shares.rest])].tolist())
    assert len(picked[0]) == 50
    assert picked[0] == picked[1]
    assert picked[0] != sorted(picked[0])
