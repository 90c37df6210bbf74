"""Suspects: wrong labels first, with reasons in words."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import gmmatch
from gmmatch.trust import judge


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
    assert (found.reasons[found.tiers == 0] == "").all()
    assert "far outside its class" in found.reasons[found.rows == 3][0]
    unlikely = np.flatnonzero(found.tiers == 1)
    for at in unlikely[:20]:
        label, better = found.labels[at], found.suggested[at]
        assert found.reasons[at] == f"label {str(label)!r} is unlikely, {str(better)!r} fits better"
    right = found.suggested[unlikely] == truth[found.rows[unlikely]]
    assert right.mean() > 0.85


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
    assert repr(found).startswith(f"Suspects({facts['suspect']} of 1500 rows")


def test_one_class_has_no_other():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[0] = 100.0
    found = gmmatch.suspects(rows, ["cat"] * 50)
    assert found.rows[0] == 0
    assert found.reasons[0] == "far outside its class"
    assert np.isnan(found.probability).all()
