"""Suspects: wrong labels first, with reasons in words, and one list whoever asks."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.data import Dataset
from gmmatch.facts import Evidence
from gmmatch.reporting import summarise
from gmmatch.trust import judge
from gmmatch.trust.suspects import _nearest_others


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cat"])
    truth = rng.integers(0, 3, 1500)
    rows = 1.2 * rng.normal(size=(3, 20))[truth] / np.sqrt(2) + rng.normal(size=(1500, 20))
    given = np.where(rng.random(1500) < 0.2, (truth + rng.integers(1, 3, 1500)) % 3, truth)
    given[3], rows[3] = truth[3], 300.0
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
    probabilities = judge(rows, codes, len(classes), 0).class_probabilities(rows, codes)
    quality = rank.get_label_quality_scores(codes, probabilities / probabilities.sum(axis=1, keepdims=True))
    wrong = given != truth
    assert roc_auc_score(wrong, suspicion) >= roc_auc_score(wrong, -quality) - 0.01
    assert roc_auc_score(wrong, suspicion) > 0.9


def test_a_row_far_from_all_others_is_of_no_class_and_keeps_its_label(data):
    rows, given, truth = data
    rows, given = rows.copy(), given.copy()
    rows[5] = -200.0
    given[5] = "ant" if truth[5] != "ant" else "bee"
    found = gmmatch.suspects(rows, given)
    away = np.isin(found.rows, [3, 5])
    assert (found.outside[away] > 0.7).all()
    assert all("fits none of the classes" in reason for reason in found.reasons[away])
    assert {change["row"] for change in found.changes(above=0.5)}.isdisjoint({3, 5})
    assert (found.fix(given, above=0.5)[[3, 5]] == given[[3, 5]]).all()


def test_reasons_name_the_label_and_what_fits_better(data):
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    suspect = (found.suspicion >= 0.5) | (found.outlier > 0.5)
    assert ((found.reasons != "") == suspect).all()
    assert f"far outside {str(given[3])!r}" in found.reasons[found.rows == 3][0]
    unlikely = np.flatnonzero((found.suspicion >= 0.5) & (found.outlier <= 0.5))
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
    assert (found.suggested_probability[named] > 1 - found.suspicion[named]).all()
    assert np.isnan(found.suggested_probability[~named]).all()


def test_the_share_of_wrong_labels_is_estimated_with_an_interval(data):
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    told = found.summary()["wrong_labels"]
    low, high = told["interval"]
    wrong = (given != truth).mean()
    assert low < wrong < high
    assert abs(told["estimate"] - wrong) < 0.05
    np.testing.assert_allclose(found.suspicion.mean(), told["estimate"], atol=1e-6)
    assert list(told["by_class"]) == ["ant", "bee", "cat"]
    counted = np.sum([part["rows"] * part["estimate"] for part in told["by_class"].values()])
    np.testing.assert_allclose(counted / 1500, told["estimate"], atol=1e-5)


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
    one, other = (found.suspicion[np.argsort(found.rows)][:1500] for found in (alone, among))
    # Not to the last digit: the middle of the rows, and what a class allows, move a little.
    assert np.abs(other - one).mean() < 0.002
    assert np.abs(other - one)[wrong].max() < 0.05
    assert ((other >= 0.5) != (one >= 0.5)).sum() <= 2


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
    assert (table["suspicion"][1500:] == table["suspicion"][sources]).all()
    assert found.summary()["duplicates"] == {"rows": 450, "share": 450 / 1950, "groups": 5}
    assert table["reason"][1500] == f"It is a copy of row {harmless[0]}, one of 91."


def test_labels_that_disagree_among_copies_are_judged_by_all_other_rows(data):
    rows, given, _ = data
    belief = gmmatch.suspects(rows, given)
    sure = belief.rows[::-1][:3]  # least suspicious
    more = np.concatenate([rows, rows[np.repeat(sure, 2)]])
    labels = np.concatenate([given, given[np.repeat(sure, 2)]])
    names = np.array(["ant", "bee", "cat"])
    against = np.array([1500, 1502, 1504])
    labels[against] = [names[names != given[row]][0] for row in sure]
    found = gmmatch.suspects(more, labels)
    place = np.argsort(found.rows)
    assert (found.suspicion[place[against]] > 0.9).all()
    assert (found.suggested[place[against]] == given[sure]).all()
    assert (found.keep[place[against]] == sure).all()
    assert f"which bears the label {str(given[sure[0]])!r}" in found.reasons[place[1500]]
    assert (found.suspicion[place[[*sure, 1501]]] < 0.5).all()


def test_labels_are_fixed_above_a_probability(data):
    rows, given, truth = data
    found = gmmatch.suspects(rows, given)
    changes = found.changes(above=0.9)
    fixed = found.fix(given, above=0.9)
    assert {change["row"] for change in changes} == set(np.flatnonzero(fixed != given))
    assert all(change["probability"] >= 0.9 and change["to"] == fixed[change["row"]] for change in changes)
    assert (fixed != truth).mean() < 0.7 * (given != truth).mean()
    assert len(found.changes(above=0.999)) < len(changes)
    for above in (-0.1, 1.5, "much"):
        with pytest.raises(gmmatch.errors.InvalidParameter, match="above must be a probability"):
            found.changes(above)


def test_distances_are_to_the_centers_of_the_classes(data):
    rows, given, _ = data
    found = gmmatch.suspects(rows, given)
    centers = judge(rows, np.unique(given, return_inverse=True)[1], 3, 0).rules.limits.centers
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
    assert facts["suspect"] == np.count_nonzero((found.suspicion >= 0.5) | (found.outlier > 0.5))
    assert repr(found).startswith(f"Suspects({facts['suspect']} of 1500 rows")


def test_one_class_has_no_other():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[0] = 100.0
    found = gmmatch.suspects(rows, ["cat"] * 50)
    assert found.rows[0] == 0
    assert found.reasons[0] == "It is far outside 'cat'."
    assert np.isnan(found.probability).all()


def test_evidence_is_packed_and_files_of_version_0_2_are_read(data):
    rows, given, _ = data
    evidence = gmmatch.select(rows, keep=0.1, labels=given).evidence
    packed = evidence.pack()
    again = Evidence.unpack(json.loads(json.dumps(packed)), len(rows))
    for name in ("wrong", "outlier", "likely", "outside", "suggested", "tiers", "far", "clumped", "estimate"):
        np.testing.assert_array_equal(getattr(again, name), getattr(evidence, name))
    # Version 0.2 had one score for all that speaks against a row.
    doubt = evidence.doubt.astype("<f4")
    former = {name: packed[name] for name in ("tiers", "suggested", "labels_judged")}
    flags = evidence.unlikely + 2 * evidence.far + 4 * evidence.clumped
    former["flags"] = gmmatch.facts.pack_array(flags.astype(np.uint8))
    read = Evidence.unpack(former | {"suspicion": gmmatch.facts.pack_array(doubt)}, len(rows))
    assert read.estimate is None
    assert ((read.wrong > 0) == evidence.unlikely).all()
    assert (read.unlikely == evidence.unlikely).all()
    assert not read.outside.any()


def test_whoever_asks_gets_the_same_list(data, tmp_path):
    """The library, a selection with suspects, the two commands and the page give the same numbers."""
    rows, given, _ = data
    rows[700:703] = rows[10]
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "labels.npy", given)
    files = {name: tmp_path / f"{name}.parquet" for name in ("select", "cli", "cli-select")}
    found = gmmatch.suspects(rows, given)
    selection = gmmatch.select(rows, keep=0.2, labels=given, suspects=files["select"])
    other = gmmatch.select(
        rows, keep=0.2, labels=given, method="random", guard="off", suspects=tmp_path / "off.parquet"
    )
    source = [str(tmp_path / "rows.npy"), "--labels", str(tmp_path / "labels.npy"), "--json"]
    done = [
        CliRunner().invoke(app, ["suspects", *source, "-o", str(files["cli"])]),
        CliRunner().invoke(
            app,
            ["select", *source, "--keep", "20%", "--suspects", str(files["cli-select"]), "-o",
             str(tmp_path / "kept.parquet")],
        ),
    ]  # fmt: skip
    assert [one.exit_code for one in done] == [0, 0]
    expected = pq.read_table(files["select"])
    for name, column in found.columns().items():
        np.testing.assert_array_equal(expected.column(name).to_pylist(), column.tolist(), err_msg=name)
    for path in (files["cli"], files["cli-select"], tmp_path / "off.parquet"):
        table = pq.read_table(path)
        assert table.schema.equals(expected.schema)
        for name in table.column_names:
            np.testing.assert_array_equal(
                table.column(name).to_pylist(), expected.column(name).to_pylist(), err_msg=f"{path}: {name}"
            )
    told = found.summary()
    assert selection.info.suspects == other.info.suspects == told
    for one in done:
        facts = json.loads(one.stdout)
        assert (facts if "suspect" in facts else facts["suspects"])["wrong_labels"] == told["wrong_labels"]
    guard = selection.info.guard
    assert guard["labels"]["estimate"] == told["wrong_labels"]["estimate"]
    assert guard["labels"]["unlikely"] == told["wrong_labels"]["rows"]
    page = summarise(selection, Dataset(rows, "rows", "array", labels=given))
    assert page.glance.suspects == told["suspect"]
    tabs = {tab.name: tab for tab in page.review.tabs}
    assert tabs["labels"].total == told["wrong_labels"]["rows"]
    assert tabs["outliers"].total == told["outliers"]["rows"]
    share, low, high = page.review.estimate
    assert [share, low, high] == pytest.approx(
        [told["wrong_labels"]["estimate"], *told["wrong_labels"]["interval"]], abs=6e-5
    )
    shown = [page.map.row[at] for at in tabs["labels"].rows]
    assert shown == found.rows[found.suspicion >= 0.5][: len(shown)].tolist()


def test_the_nearest_others_of_very_many_classes():
    rng = np.random.default_rng(0)
    codes = np.arange(3000) % 1500
    rows = rng.normal(size=(3000, 5)).astype(np.float32)
    verdict = judge(rows, codes, 1500, 0)
    apart = np.linalg.norm(rows[:, None] - verdict.rules.limits.centers, axis=2)
    apart[np.arange(3000), codes] = np.inf
    other, distances = _nearest_others(rows, codes, verdict)
    assert (other == apart.argmin(axis=1)).all()
    np.testing.assert_allclose(distances, apart.min(axis=1), rtol=1e-12)


def test_bad_rows_take_no_part(data):
    rows, given, _ = data
    damaged = rows.copy()
    damaged[5] = np.nan
    found = gmmatch.suspects(damaged, given, on_bad_rows="drop")
    kept = np.delete(np.arange(1500), 5)
    alone = gmmatch.suspects(rows[kept], given[kept])
    assert found.rows.tolist() == kept[alone.rows].tolist()
    np.testing.assert_allclose(found.suspicion, alone.suspicion, atol=2e-6)
