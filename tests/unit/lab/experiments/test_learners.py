import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from gmmatch.lab.experiments.learners import ProbeLearner, View


@pytest.fixture(scope="module")
def rows():
    features, labels = make_classification(
        1200, 30, n_informative=12, n_classes=4, class_sep=2.0, random_state=0
    )
    return features.astype(np.float32), labels


def test_the_view_is_that_of_principal_components_up_to_sign(rows):
    features, _ = rows
    view = View(features)
    pca = PCA(svd_solver="full").fit(features.astype(np.float64))
    expected = (
        pca.transform(features)[:, : view.turn.shape[1]]
        / np.var(pca.transform(features), axis=0)[: view.turn.shape[1]] ** 0.25
    )
    np.testing.assert_allclose(np.abs(view(features)), np.abs(expected), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["linear-probe", "linear-probe-converged"])
def test_a_probe_on_clean_rows_does_as_well_as_logistic_regression(rows, name):
    features, labels = rows
    target = ProbeLearner(name, features[:800], features[:800], features[800:], labels[800:])
    ours = target.accuracy(np.arange(800), labels[:800], seed=0)
    theirs = LogisticRegression(max_iter=2000).fit(features[:800], labels[:800])
    assert ours == pytest.approx(100 * theirs.score(features[800:], labels[800:]), abs=3)


def test_the_probe_that_is_stopped_early_bears_wrong_labels_better(rows):
    features, labels = rows
    rng = np.random.default_rng(0)
    wrong = np.where(rng.random(800) < 0.4, rng.integers(0, 4, 800), labels[:800])
    few = np.arange(120)
    found = [
        ProbeLearner(name, features[:800], features[:800], features[800:], labels[800:]).accuracy(
            few, wrong[few], seed=0
        )
        for name in ("linear-probe", "linear-probe-converged")
    ]
    assert found[0] > found[1] + 1
