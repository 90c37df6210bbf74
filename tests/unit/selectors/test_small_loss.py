import json

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner

import gmmatch
from gmmatch import corrupt
from gmmatch.cli import app
from gmmatch.errors import InvalidInput
from gmmatch.matching.budgets import advise
from gmmatch.selectors import SmallLoss


@pytest.fixture(scope="module")
def digits():
    rows, truth = load_digits(return_X_y=True)
    rows, truth = rows[:900] / 16, truth[:900]
    labels, wrong = corrupt.corrupt_labels(truth, share=0.3, rng=0)
    return rows, labels, wrong


def test_wrong_labels_come_last_as_with_another_head(digits):
    rows, labels, wrong = digits
    kept = gmmatch.select(rows, keep=0.5, labels=labels, method="small-loss")
    head = LogisticRegression(max_iter=500)
    told = cross_val_predict(head, rows, labels, cv=3, method="predict_proba")
    by_head = np.argsort(-told[np.arange(len(labels)), labels])[:450]
    assert wrong[kept.indices].mean() < 0.02
    assert np.isin(kept.indices, by_head).mean() > 0.8
    losses = kept.scores
    for code in range(10):
        own = losses[kept.labels == code]
        assert (np.diff(own) >= 0).all()
    np.testing.assert_allclose(np.exp(-losses).max(), 1.0, atol=0.2)


def test_the_estimator_gives_the_same_rows_as_select(digits):
    rows, labels, _ = digits
    kept = gmmatch.select(rows, keep=100, labels=labels, method="small-loss")
    np.testing.assert_array_equal(SmallLoss(keep=100).fit(rows, labels).sample_indices_, kept.indices)


def test_given_losses_take_the_place_of_the_head():
    losses = np.random.default_rng(0).random(40)
    kept = gmmatch.select(np.eye(40), keep=5, method="small-loss", scores=losses)
    np.testing.assert_array_equal(kept.indices, np.argsort(losses)[:5])


def test_labels_that_cannot_be_judged_are_refused():
    with pytest.raises(InvalidInput, match="too few rows to learn from"):
        gmmatch.select(np.eye(8), keep=8, labels=np.arange(8), method="small-loss")
    with pytest.raises(InvalidInput, match="needs labels"):
        gmmatch.select(np.eye(8), keep=4, method="small-loss")
    with pytest.raises(InvalidInput, match=r"needs labels .*\(no labels\), or scores"):
        SmallLoss(keep=4).fit(np.eye(8))


def test_uneven_classes_are_pointed_out_in_words_and_in_the_file(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(["common", "rare"], [330, 30])
    np.save(tmp_path / "rows.npy", rng.normal(size=(360, 6)) + 3.0 * (labels == "rare")[:, None])
    np.save(tmp_path / "labels.npy", labels)
    words = ["select", "rows.npy", "--labels", "labels.npy", "--keep", "10%", "--quiet", "--overwrite"]
    words[1], words[3] = str(tmp_path / "rows.npy"), str(tmp_path / "labels.npy")
    hint = "class 'common' has 11 times as many rows as 'rare'; budgets sqrt or equal"
    to = ["-o", str(tmp_path / "kept.parquet"), "--report", str(tmp_path / "page.html")]
    told = CliRunner().invoke(app, [*words, *to]).output
    assert any(line.startswith(f"note: {hint}") for line in told.splitlines())  # on a line of its own
    assert "Class 'common' has 11 times" in (tmp_path / "page.html").read_text().replace("\\u0027", "'")
    assert gmmatch.load_selection(tmp_path / "kept.parquet").info.hint.startswith(hint)
    even = CliRunner().invoke(app, [*words, *to, "--budgets", "sqrt", "--json"])
    assert json.loads(even.stdout)["hint"] is None


@pytest.mark.parametrize(
    ("budgets", "sizes", "said"),
    [("proportional", [50, 5], False), ("proportional", [51, 5], True), ("equal", [51, 5], False)],
)
def test_ten_times_are_not_pointed_out_more_are(budgets, sizes, said):
    assert (advise(budgets, ["a", "b"], np.array(sizes), 11) is not None) == said
