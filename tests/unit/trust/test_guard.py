"""Tiers in the selectors: exact budgets, equivariance, chunking, records of what was done."""

import importlib

import numpy as np
import pytest

import gmmatch
from gmmatch.matching.features import MatchedRows, unit_rows
from gmmatch.selectors import GMMatching
from gmmatch.trust import TIERS, judge
from gmmatch.trust.inputs import FourierFeatures

judge_module = importlib.import_module("gmmatch.trust.judge")  # the name in the package is the function


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
    guarded = gmmatch.select(rows, keep=0.2, labels=labels)
    assert good[guarded.indices].mean() > 0.97
    assert good[gmmatch.select(rows, keep=0.2, labels=labels, guard="off").indices].mean() < 0.9


@pytest.mark.parametrize("method", ["gm-matching", "herding", "random", "moderate", "hard", "k-center"])
@pytest.mark.parametrize("keep", [0.05, 0.7, 0.95, 1.0])
def test_every_method_takes_trusted_rows_first_and_exactly_k(method, keep):
    rows, labels, _ = make()
    estimator = gmmatch.selectors.find_method(method).build(keep=keep, guard="auto").fit(rows, labels)
    picks, tiers = estimator.sample_indices_, estimator.tiers_
    assert len(np.unique(picks)) == len(picks) == round(keep * len(rows))
    evidence = estimator.selection_.evidence
    for code in range(3):
        own = picks[labels[picks] == code]
        trusted = tiers[own] == 0
        # Within a class trusted rows come first, and all others in the order of their doubt.
        assert (np.diff(trusted.astype(int)) <= 0).all()
        assert trusted.all() or trusted.sum() == (tiers[labels == code] == 0).sum()
        rest = evidence.doubt[own[~trusted]]
        assert (np.diff(rest) >= 0).all()
        left = np.setdiff1d(np.flatnonzero(labels == code), own)
        if len(rest) and len(left):
            assert evidence.doubt[left].min() >= rest.max()
    if keep == 0.05:
        plain = gmmatch.select(rows, keep=keep, labels=labels, method="random")
        assert (np.bincount(plain.labels) == np.bincount(labels[picks])).all()


@pytest.mark.parametrize("batch_size", [None, 64])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_budget_beyond_the_trusted_rows_reaches_into_the_next_tiers(batch_size, labelled):
    rows, labels, _ = make()
    selection = gmmatch.select(rows, keep=1.0, labels=labels if labelled else None, batch_size=batch_size)
    facts = selection.info.guard
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
    expected = gmmatch.select(rows, keep=0.2, labels=labels).indices.tolist()
    if kind == "memmap":
        np.save(tmp_path / "rows.npy", rows)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    elif kind == "float64":
        rows = rows.astype(np.float64)
    elif kind == "fortran":
        rows = np.asfortranarray(rows)
    else:
        rows = rows.tolist()
    assert gmmatch.select(rows, keep=0.2, labels=labels).indices.tolist() == expected


def many(monkeypatch, n=20_000, d=96, wrong=0.1, gap=0.7):
    """Return rows of three classes, one of them rare, of which the guard learns from a sample."""
    monkeypatch.setattr(judge_module, "_SAMPLE_ROWS", 4096)
    monkeypatch.setattr(judge_module, "_ROWS_PER_FEATURE", 1)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n)
    truth[:12] = 2
    rows = rng.normal(size=(n, d)) + gap * rng.normal(size=(3, d))[truth]
    codes = np.where((rng.random(n) < wrong) & (truth < 2), 1 - truth, truth)
    rows[100:400] += 40.0
    order = rng.permutation(n)
    return rows.astype(np.float32)[order], codes[order], truth[order]


def test_the_means_of_the_trusted_rows_come_with_the_verdict(monkeypatch):
    rows, codes, _ = many(monkeypatch, wrong=0.2, gap=0.3)
    trust = judge(rows, codes, 3, seed=0)
    view = MatchedRows(rows, trust)
    features = view[:]
    assert view.means is not None
    for code in range(3):
        own = (codes == code) & (trust.tiers == 0)
        np.testing.assert_allclose(view.means[code], features[own].mean(axis=0, dtype=float), atol=1e-6)


def test_a_selection_from_many_rows_takes_three_reads_on_any_number_of_threads(monkeypatch):
    rows, codes, truth = many(monkeypatch, n=40_000, d=32)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        found.append(gmmatch.select(rows, codes, keep=0.05, fourier_features="off"))
    assert found[0].indices.tolist() == found[1].indices.tolist()
    facts = found[0].info
    assert facts.reads == gmmatch.plan(rows, codes, keep=0.05, fourier_features="off").reads == 3
    assert facts.center == "mean"
    assert facts.guard["sample"] == found[1].info.guard["sample"] >= 4096
    assert (codes == truth)[found[0].indices].mean() > 0.99


def test_the_number_of_threads_does_not_matter(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rows, labels, _ = make(n=3000, d=64)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        with threadpoolctl.threadpool_limits(threads):
            found.append(gmmatch.select(rows, keep=0.2, labels=labels))
    assert found[0].indices.tolist() == found[1].indices.tolist()
    assert found[0].info == found[1].info


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
    guard = gmmatch.select(rows, keep=0.1, labels=labels).info.guard
    assert tuple(guard["tiers"]) == TIERS
    assert guard["reads"] == 1
    assert guard["labels"]["used"]
    assert guard["gate"]["far"] > 0
    without = gmmatch.select(rows, keep=0.1).info.guard
    assert without["labels"] == {"used": False, "reason": "no labels"}
    assert gmmatch.select(rows, keep=0.1, labels=labels, guard="off").info.guard == {"mode": "off"}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [(np.zeros(300), "one class only"), (np.arange(300), "there are too few rows to learn from")],
)
def test_labels_that_cannot_be_judged_leave_the_gate(labels, reason):
    rows = make(n=300)[0]
    selection = gmmatch.select(rows, keep=300, labels=labels)
    assert len(selection) == 300
    assert selection.info.guard["labels"] == {"used": False, "reason": reason}
    features = gmmatch.label_aware(rows, labels)
    assert features.shape == (300, rows.shape[1] + len(np.unique(labels)))
    assert not features[:, rows.shape[1] :].any()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (12, 1), (40, 200)])
def test_the_smallest_inputs_work(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    labels = np.arange(len(rows)) % 2
    k = max(len(np.unique(labels)), len(rows) // 2)
    assert len(gmmatch.select(rows, keep=k, labels=labels)) == k
    assert len(gmmatch.suspects(rows, labels)) == len(rows)


def test_a_given_center_is_matched_in_its_own_coordinates():
    rows, labels, _ = make()
    points = {code: rows[labels == code].mean(axis=0) for code in range(3)}
    estimator = GMMatching(0.1, center=points).fit(rows, labels)
    np.testing.assert_allclose(estimator.centers_, np.stack(list(points.values())))
    assert estimator.selection_.info.strategy is None


def test_rows_that_must_not_be_looked_at_change_nothing():
    rows, labels, _ = make()
    usable = np.ones(len(rows), dtype=bool)
    usable[::7] = False
    damaged = rows.copy()
    damaged[~usable] = np.nan
    found = GMMatching(0.1).fit(damaged, labels, usable=usable)
    alone = GMMatching(0.1).fit(rows[usable], labels[usable])
    assert np.flatnonzero(usable)[alone.sample_indices_].tolist() == found.sample_indices_.tolist()


def test_features_are_the_formula():
    rows, labels, _ = make(far=0.0)
    trust = judge(rows, labels, 3, seed=0)
    probabilities = trust.class_probabilities(rows, labels)
    passed = ~(trust.far | trust.clumped)
    labelled = probabilities - probabilities[passed].mean(axis=0)
    labelled /= np.sqrt((labelled[passed] ** 2).sum(axis=1).mean())
    features = gmmatch.label_aware(rows, labels, weight=3.0)
    assert features.shape == (len(rows), rows.shape[1] + 3)
    np.testing.assert_allclose(features[:, :16], (rows - trust.rules.origin) / trust.rules.scale, atol=1e-5)
    np.testing.assert_allclose(features[:, 16:], 3.0 * labelled, atol=1e-5)


def test_folds_are_ignored_with_a_warning():
    rows, labels, _ = make(n=120)
    with pytest.warns(DeprecationWarning, match="folds is ignored"):
        found = gmmatch.label_aware(rows, labels, folds=2)
    np.testing.assert_array_equal(found, gmmatch.label_aware(rows, labels))


@pytest.mark.parametrize("with_fourier", [False, True])
def test_rows_are_chosen_from_a_view_as_from_an_array(with_fourier):
    rows, labels, _ = make(n=120)
    trust = judge(rows, labels, 3, seed=0)
    fourier = FourierFeatures.draw(trust.rules.origin, 2.0, 8, 1) if with_fourier else None
    view = MatchedRows(rows, trust, fourier)
    scaled = (rows - trust.rules.origin) / trust.rules.scale
    parts = [scaled] if fourier is None else [scaled / 4, fourier(rows)]  # rows count a quarter beside these
    features = np.hstack(parts).astype(np.float32)
    assert (view.shape, len(view)) == (features.shape, 120)
    assert (view.means is None) == with_fourier
    mask = np.arange(120) % 3 == 0
    for chosen in (slice(None), slice(100, 3, -7), mask, np.array([5, -1, 7]), [4, 2], -2, np.int64(7)):
        np.testing.assert_allclose(view[chosen], features[chosen], rtol=1e-4, atol=1e-5)
        assert view[chosen].shape == features[chosen].shape
    known = view.to_known(features[3].astype(float))
    np.testing.assert_allclose(known[:16], rows[3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(known[16:], features[3, 16:], rtol=0, atol=0)


def test_rows_of_length_one_keep_their_direction():
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    rows[7] = 0.0
    scaled = unit_rows(rows)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(scaled, rows / np.where(lengths > 0, lengths, 1), rtol=1e-6)
    assert scaled.dtype == np.float32


@pytest.mark.parametrize("params", [{"weight": -1}, {"weight": float("nan")}, {"weight": 1e9}])
def test_parameters_that_mean_nothing_are_refused(params):
    rows, labels, _ = make(n=50)
    with pytest.raises(gmmatch.errors.InvalidParameter, match=next(iter(params))):
        gmmatch.label_aware(rows, labels, **params)


def test_without_classes_the_gate_alone_decides():
    rows, labels, _ = make()
    selection = gmmatch.select(rows, keep=0.1, labels=labels, by_class=False)
    assert selection.indices.tolist() == gmmatch.select(rows, keep=0.1).indices.tolist()


def test_a_verdict_that_is_there_is_used_and_nothing_is_judged_again(monkeypatch):
    rows, labels, _ = make()
    expected = GMMatching(0.1).fit(rows, labels).selection_
    verdict = judge(rows, labels, 3, seed=0)
    monkeypatch.setattr("gmmatch.selectors.base.judge", None)
    found = GMMatching(0.1).fit(rows, labels, verdict=verdict).selection_
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.info.tiers == expected.info.tiers
    assert expected.info.reads - found.info.reads == 1  # the read that judges


@pytest.mark.parametrize("features", [3, 8])
def test_labels_by_chance_are_believed_with_a_hint(features):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows, labels = rng.normal(size=(400, features)), rng.integers(0, 30, 400)
        found = gmmatch.select(rows, keep=80, labels=labels)
        assert "the rows say little about the labels" in found.info.hint
        assert (found.tiers == 0).mean() > 0.8
