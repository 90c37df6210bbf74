"""Suspects: wrong labels first, with reasons in words."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import gmmatch
from gmmatch.facts import Evidence
from gmmatch.trust import judge
from gmmatch.trust.weighing import Weighed


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cat"])
    truth = rng.integers(0, 3, 1500)
    rows = 1.2 * rng.normal(size=(3, 20))[truth] / np.sqrt(2) + rng.normal(size=(1500, 20))
    given = np.where(rng.random(1500) < 0.2, (truth + rng.integers(1, 3, 1500)) % 3, truth)
    rows[3] = 300.0
    return rows, names[given], names[truth]


def test_every_row_is_there_once_most_suspicious_first(data):
    rows, given, _ = data
    found = gmmatch.suspects(rows, given)
    assert sorted(found.rows) == list(range(1500))
    assert (np.diff(found.suspicion) <= 0).all()
    assert {len(column) for column in found.columns().values()} == {1500}
    assert (found.labels == given[found.rows]).all()


def test_wrong_labels_stand_first_as_with_cleanlab(data):
    rank = pytest.importorskip("cleanlab.rank")
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    suspicion = np.empty(1500)
    suspicion[found.rows] = found.suspicion
    classes, codes = np.unique(given, return_inverse=True)
    probabilities = judge(rows, codes, len(classes), 0).labels.probabilities
    quality = rank.get_label_quality_scores(codes, probabilities / probabilities.sum(axis=1, keepdims=True))
    wrong = given != truth
    assert roc_auc_score(wrong, suspicion) >= roc_auc_score(wrong, -quality) - 0.01
    assert roc_auc_score(wrong, suspicion) > 0.9


def test_reasons_name_the_label_and_what_fits_better(data):
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    suspect = (found.wrong_label > 0.5) | (found.outlier > 0.5)
    assert ((found.reasons != "") == suspect).all()
    assert f"far outside {str(given[3])!r} and every other class" in found.reasons[found.rows == 3][0]
    unlikely = np.flatnonzero((found.wrong_label > 0.5) & (found.outlier <= 0.5))
    named = unlikely[[better is not None for better in found.suggested[unlikely]]]
    assert len(named) > 0.9 * len(unlikely)
    for at in named:
        label, better = str(found.labels[at]), found.suggested[at]
        how = f"{found.suggested_probability[at]:.0%}"
        assert found.reasons[at] == f"The label {label!r} is unlikely, {better!r} is likelier ({how})."
    right = found.suggested[named] == truth[found.rows[named]]
    assert right.mean() > 0.85


def test_a_class_is_suggested_only_where_it_is_likelier_than_the_label(data):
    rows, given, _ = data
    found = gmmatch.suspects(rows, given)
    named = np.array([better is not None for better in found.suggested])
    assert 0.1 < named.mean() < 0.3
    assert (found.suggested[named] != found.labels[named]).all()
    assert (found.suggested_probability[named] > 1 - found.wrong_label[named]).all()
    assert np.isnan(found.suggested_probability[~named]).all()


def test_the_share_of_wrong_labels_is_estimated_with_an_interval(data):
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    told = found.summary()["wrong_labels"]
    low, high = told["interval"]
    wrong = (given != truth).mean()
    assert low < wrong < high
    assert abs(told["estimate"] - wrong) < 0.05
    np.testing.assert_allclose(found.wrong_label.mean(), told["estimate"], atol=0.005)
    assert list(told["by_class"]) == ["ant", "bee", "cat"]
    counted = np.sum([part["rows"] * part["estimate"] for part in told["by_class"].values()])
    np.testing.assert_allclose(counted / 1500, told["estimate"])


@pytest.fixture
def copied(data):
    """Return the data, with three tenths more rows that are copies of five harmless ones."""
    rows, given, truth = data
    harmless = np.flatnonzero(given == truth)[5:10]
    sources = np.resize(harmless, 450)
    return np.concatenate([rows, rows[sources]]), np.concatenate([given, given[sources]]), harmless


@pytest.mark.parametrize("jitter", [0.0, 1e-3])
def test_copies_of_harmless_rows_do_not_move_wrong_labels(data, copied, jitter):
    rows, given, truth = data
    more, labels, _ = copied
    more[1500:] += jitter * np.random.default_rng(1).normal(size=(450, 20))
    wrong = np.flatnonzero(given != truth)
    alone, among = gmmatch.suspects(rows, given), gmmatch.suspects(more, labels)
    places = [np.argsort(found.rows)[wrong] / len(found) for found in (alone, among)]
    assert (places[1] - places[0]).max() <= 0.01


def test_groups_of_copies_name_the_row_to_keep(copied):
    rows, labels, harmless = copied
    found = gmmatch.suspects(rows, labels)
    table = {name: values[np.argsort(found.rows)] for name, values in found.columns().items()}
    sources = np.resize(harmless, 450)
    assert (table["keep"][1500:] == sources).all()
    assert (table["duplicate"][1500:] == 1).all()
    assert (table["duplicate"][:1500] == 0).all()
    assert (table["copies"][harmless] == 91).all()
    assert (table["group"][1500:] == table["group"][sources]).all()
    assert (table["wrong_label"][1500:] == table["wrong_label"][sources]).all()
    assert found.summary()["duplicates"] == {"rows": 450, "share": 450 / 1950, "groups": 5}
    assert table["reason"][1500] == f"It is a copy of row {harmless[0]}, one of 91."


def test_labels_that_disagree_among_copies_are_the_strongest_evidence(data):
    rows, given, truth = data
    good = np.flatnonzero(given == truth)[:3]
    more = np.concatenate([rows, rows[np.repeat(good, 2)]])
    labels = np.concatenate([given, given[np.repeat(good, 2)]])
    names = np.array(["ant", "bee", "cat"])
    against = np.array([1500, 1502, 1504])
    labels[against] = [names[names != given[row]][0] for row in good]
    found = gmmatch.suspects(more, labels)
    place = np.argsort(found.rows)
    assert (found.wrong_label[place[against]] > 0.95).all()
    assert (found.suggested[place[against]] == given[good]).all()
    assert "copies of it do not bear the label" in found.reasons[place[1500]].lower()
    assert (found.wrong_label[place[[*good, 1501]]] < 0.5).all()


def test_labels_are_fixed_above_a_probability(data):
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    changes = found.changes(above=0.9)
    fixed = found.fix(given, above=0.9)
    assert {change["row"] for change in changes} == set(np.flatnonzero(fixed != given))
    assert all(change["probability"] >= 0.9 and change["to"] == fixed[change["row"]] for change in changes)
    assert (fixed != truth).mean() < 0.7 * (given != truth).mean()
    assert not found.changes(above=1.0)
    for above in (-0.1, 1.5, "much"):
        with pytest.raises(gmmatch.errors.InvalidParameter, match="above must be a probability"):
            found.changes(above)


def test_distances_are_to_the_centers_of_the_classes(data):
    rows, given, _ = data
    found = gmmatch.suspects(rows, given)
    centers = judge(rows, np.unique(given, return_inverse=True)[1], 3, 0).gate.centers
    names = np.array(["ant", "bee", "cat"])
    apart = np.linalg.norm(rows[:, None] - centers, axis=2)[found.rows]
    own = found.labels[:, None] == names
    np.testing.assert_allclose(found.distance, apart[own], rtol=1e-9)
    apart[own] = np.inf
    assert (found.other == names[apart.argmin(axis=1)]).all()
    np.testing.assert_allclose(found.other_distance, apart.min(axis=1), rtol=1e-9)


def test_the_summary_tells_how_much_seems_wrong(data):
    rows, given, _ = data
    found = gmmatch.suspects(rows, given)
    facts = found.summary()
    assert facts["rows"] == 1500
    assert 0.15 < facts["share"] < 0.25
    assert facts["suspect"] == np.count_nonzero((found.wrong_label > 0.5) | (found.outlier > 0.5))
    assert repr(found).startswith(f"Suspects({facts['suspect']} of 1500 rows")


def test_one_class_has_no_other():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[0] = 100.0
    found = gmmatch.suspects(rows, ["cat"] * 50)
    assert found.rows[0] == 0
    assert found.reasons[0] == "It is far outside 'cat' and every other class."
    assert np.isnan(found.probability).all()


def test_evidence_is_packed_and_files_without_kinds_are_read(data):
    rows, given, _ = data
    evidence = gmmatch.select(rows, 0.1, given).evidence
    packed = evidence.pack()
    again = Evidence.unpack(packed)
    for name in ("wrong_label", "outlier", "likely"):
        np.testing.assert_allclose(getattr(again, name), getattr(evidence, name), rtol=1e-6)
    np.testing.assert_array_equal(again.estimate, evidence.estimate)
    former = Evidence.unpack(
        {name: part for name, part in packed.items() if name not in ("scores", "estimate")}
    )
    assert former.estimate is None
    assert ((former.wrong_label > 0) == evidence.unlikely).all()


def test_rows_that_share_a_sentence_have_the_one_they_would_have_alone():
    rng = np.random.default_rng(8)
    n, names = 400, [repr(name) for name in "abc"]
    codes, copy = rng.integers(0, 3, n), rng.random(n) < 0.2
    found = Weighed(
        wrong_label=rng.random(n),
        outlier=rng.random(n),
        duplicate=np.where(copy, rng.choice([0.7, 1.0], n), 0.0),
        group=np.where(copy, rng.integers(0, 9, n), -1),
        copies=np.where(copy, 5, 1),
        keep=np.where(copy, rng.integers(0, n, n), np.arange(n)),
        contradicted=copy & (rng.random(n) < 0.5),
        suggested=rng.integers(-1, 3, n),
        likely=np.where(rng.random(n) < 0.5, rng.choice([0.5, 0.75], n), np.nan),
        clumped=rng.random(n) < 0.3,
    )
    found = replace(found, suggested=np.where(found.contradicted, (codes + 1) % 3, found.suggested))
    lost = rng.random(n) < 0.5
    told = found.reasons(codes, np.array(list("abc")), lost)
    against = found.suspect | copy
    assert all((text == "") != wrong for text, wrong in zip(told, against, strict=True))
    for row in np.flatnonzero(against):
        assert told[row] == found._sentence(row, codes, names, lost)
