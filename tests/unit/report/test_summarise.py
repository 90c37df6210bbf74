from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import gmmatch
from gmmatch.data import Dataset
from gmmatch.errors import InvalidInput
from gmmatch.reporting import inputs, summarise
from gmmatch.reporting.inputs import prepare


def as_source(rows, labels=None, ids=None):
    return Dataset(rows, "blobs", "array", labels=labels, ids=ids)


def test_the_facts_are_those_of_the_selection(made):
    selection, source = made
    report = summarise(selection, source, seconds=1.5, command="gmmatch select blobs")
    glance = report.glance
    assert (glance.rows, glance.kept, glance.classes, glance.features) == (400, 80, 3, 8)
    assert (glance.objective, glance.epsilon) == (selection.objective, selection.epsilon)
    assert glance.times_closer == pytest.approx(glance.random_objective / selection.objective)
    assert glance.suspects == int((selection.tiers > 0).sum()) >= 6
    assert (glance.seconds, glance.command) == (1.5, "gmmatch select blobs")
    assert glance.python == "gmmatch.select(X, y, keep=80, random_state=0)"
    assert "a linear model gets" in glance.learned
    assert report.notes == []
    json.dumps(report.as_dict(), allow_nan=False)


def test_the_map_tells_of_every_row_what_is_true_of_it(made):
    selection, source = made
    report = summarise(selection, source)
    found = report.map
    assert sorted(found.row) == list(range(400))
    rank = {int(row): place for place, row in enumerate(selection.indices)}
    assert found.rank == [rank.get(row, -1) for row in found.row]
    names = [report.classes.names[code] for code in found.code]
    assert names == source.labels[found.row].tolist()
    expected = np.empty(400)
    for center, label in zip(selection.centers, np.unique(source.labels), strict=True):
        own = source.labels == label
        expected[own] = np.linalg.norm(source.rows[own] - center, axis=1)
    np.testing.assert_allclose(found.distance, expected[found.row], rtol=1e-3)
    evidence = gmmatch.suspects(source.rows, source.labels)
    by_row = dict(zip(evidence.rows.tolist(), evidence.suspicion.tolist(), strict=True))
    np.testing.assert_allclose(found.suspicion, [by_row[row] for row in found.row], atol=1e-3)
    better = dict(zip(evidence.rows.tolist(), evidence.suggested.tolist(), strict=True))
    reasons = dict(zip(evidence.rows.tolist(), evidence.reasons.tolist(), strict=True))
    for at, row in enumerate(found.row):
        if by_row[row] > 0.501 and better[row] != source.labels[row]:
            assert report.classes.names[found.suggested[at]] == better[row]
        elif by_row[row] < 0.499:
            assert found.suggested[at] == -1
        # The report measures distances to the own class alone.
        assert found.reason.get(at, "") == reasons[row].replace(" and every other class", "")
    assert found.suggested[found.row.index(0)] >= 0


def test_the_table_of_classes_counts_right(made):
    selection, source = made
    report = summarise(selection, source)
    table = report.classes
    assert table.names == ["ant", "bee", "cow"]
    labels = source.labels
    assert table.sizes == [int((labels == name).sum()) for name in table.names]
    assert table.kept == [int((selection.labels == name).sum()) for name in table.names]
    assert table.suspects == [int((selection.tiers[labels == name] > 0).sum()) for name in table.names]
    assert np.sum(table.steps, axis=0).tolist() == table.kept
    for k, counts in zip(report.curve.budgets, np.cumsum(table.steps, axis=0), strict=True):
        assert counts.tolist() == [int((selection.labels[:k] == name).sum()) for name in table.names]
    distances = dict(zip(report.map.row, report.map.distance, strict=True))
    for code, name in enumerate(table.names):
        own = np.flatnonzero(labels == name)
        assert table.median[code] == pytest.approx(
            np.median([distances[row] for row in own.tolist()]), rel=0.02
        )


def test_suspects_are_counted_the_same_everywhere(tmp_path):
    """Rows that are not trusted are suspects, beside the tabs too, whoever looked for them."""
    rng = np.random.default_rng(3)
    truth = np.arange(600) % 3
    rows = rng.normal(size=(600, 8)) + 1.2 * np.eye(3, 8)[truth]
    labels = np.where(rng.random(600) < 0.3, rng.integers(0, 3, 600), truth)
    selection = gmmatch.select(rows, keep=60, labels=labels, output=tmp_path / "kept.parquet")
    known = gmmatch.load_selection(tmp_path / "kept.parquet")
    for one in (selection, known, replace(selection, evidence=None)):
        report = summarise(one, as_source(rows, labels))
        assert report.glance.suspects == int((selection.tiers > 0).sum())
        assert report.glance.suspects == sum(report.classes.suspects)
        assert report.glance.suspects >= max(tab.total for tab in report.review.tabs)
        assert report.glance.judged == sum(report.classes.judged) == 600


def test_galleries_show_what_they_say(made):
    selection, source = made
    report = summarise(selection, source)
    first, dropped = report.galleries
    assert [report.map.row[at] for at in first.rows] == selection.indices[:60].tolist()
    assert all(report.map.rank[at] < 0 for at in dropped.rows)
    assert len(dropped.rows) == 60


def test_suspects_are_shown_kind_by_kind(blobs):
    rows, labels = blobs
    rows[390:395] = rows[200]
    rows[396] = 40.0
    selection = gmmatch.select(rows, keep=0.2, labels=labels)
    report = summarise(selection, as_source(rows, labels))
    found, tabs = report.map, {tab.name: tab for tab in report.review.tabs}
    assert {found.row[at] for at in tabs["labels"].rows} >= set(range(6))
    assert tabs["labels"].score == sorted(tabs["labels"].score, reverse=True)
    for at, beside in zip(tabs["labels"].rows, tabs["labels"].beside, strict=True):
        better = found.suggested[at] if found.suggested[at] >= 0 else found.code[at]
        typical = [place for place in range(400) if found.code[place] == better and place not in found.reason]
        assert beside == min(typical, key=lambda place: (found.distance[place], found.row[place]))
    assert found.row[tabs["outliers"].rows[0]] == 396
    assert [found.row[at] for at in tabs["duplicates"].rows] == [390]
    assert [found.row[at] for at in tabs["duplicates"].beside] == [200]
    assert found.reason[tabs["duplicates"].rows[0]] == "It is a copy of row 200, one of 6."
    share, low, high = report.review.estimate
    assert low <= share <= high
    np.testing.assert_allclose(
        np.average(report.classes.wrong, weights=report.classes.sizes), share, atol=1e-3
    )
    kept = report.review.labels
    assert (np.array(kept.names)[kept.codes] == labels).all()


def test_suspects_that_are_known_are_not_looked_for_again(made, monkeypatch):
    selection, source = made
    monkeypatch.setattr(inputs, "judge", None)
    report = summarise(selection, source)
    wrong = selection.evidence.wrong
    shown = [report.map.row[at] for at in report.review.tabs[0].rows]
    assert wrong[shown].tolist() == np.sort(wrong[wrong >= 0.5])[::-1][:60].tolist()


def test_suspicion_is_measured_on_the_map_where_rows_are_many(made, monkeypatch):
    selection, source = made
    monkeypatch.setattr(inputs, "_MOST_WORK", 10.0)
    report = summarise(selection, source)
    assert not any("map" in note for note in report.notes)  # all rows are on the map
    monkeypatch.setattr("gmmatch.reporting.map.MOST_ROWS", 300)
    monkeypatch.setattr("gmmatch.reporting.map.choose_rows.__defaults__", (300,))
    report = summarise(replace(selection, tiers=None, evidence=None), source)
    assert len(report.map.row) == 300
    assert report.glance.judged == 300
    assert "300 of 400 rows" in report.notes[0]
    assert "among the 300 rows of the map alone" in report.notes[1]


def test_rows_with_nan_take_no_part(blobs):
    rows, labels = blobs[0].copy(), blobs[1]
    rows[[5, 300]] = np.nan
    selection = gmmatch.select(rows, keep=0.2, labels=labels, on_bad_rows="drop")
    report = summarise(selection, as_source(rows, labels))
    assert report.glance.usable == 398
    assert not {5, 300} & set(report.map.row)
    said = "2 rows take no part: not readable, without a label, or with NaN or infinite values."
    assert report.notes[0] == said
    assert sum(report.classes.sizes) == 398


def test_rows_without_a_label_take_no_part_though_their_numbers_are_fine(blobs):
    rows, labels = blobs
    given = [None if row in (7, 250) else str(label) for row, label in enumerate(labels)]
    source = gmmatch.open(rows, labels=given, on_bad_rows="drop")
    report = summarise(gmmatch.select(source, keep=0.2, on_bad_rows="drop"), source)
    assert report.glance.usable == 398
    assert not {7, 250} & set(report.map.row)
    assert report.notes[0].startswith("2 rows take no part")
    assert sum(report.classes.sizes) == 398


def test_a_saved_selection_gives_the_same_report(made, tmp_path):
    selection, source = made
    selection.save(tmp_path / "kept.parquet")
    again = summarise(gmmatch.load_selection(tmp_path / "kept.parquet"), source)
    report = summarise(selection, source)
    assert again.curve == report.curve
    assert again.map == report.map
    assert again.galleries == report.galleries
    assert again.review == report.review


def test_centres_that_a_file_lacks_are_found_again(made):
    selection, source = made
    report = summarise(replace(selection, centers=None), source)
    assert any("holds no centres" in note for note in report.notes)
    assert len(report.map.row) == 400


def test_other_labels_are_noticed(made):
    selection, source = made
    other = source.labels.copy()
    other[7] = "bee"
    report = summarise(selection, as_source(source.rows, other))
    assert "differ from what the selection was made from" in report.notes[-1]


def test_what_does_not_belong_together_is_refused(made):
    selection, source = made
    with pytest.raises(InvalidInput, match="made from 400 rows, but blobs has 399"):
        summarise(selection, as_source(source.rows[1:], source.labels[1:]))
    with pytest.raises(InvalidInput, match="made with labels, and blobs has none"):
        summarise(selection, as_source(source.rows))
    with pytest.raises(InvalidInput, match="rows of 8 numbers in 3 groups, but blobs has rows of 7 in 3"):
        summarise(selection, as_source(source.rows[:, 1:], source.labels))


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (np.random.default_rng(0).normal(size=(10, 3)), None),
        (np.random.default_rng(0).normal(size=(10, 3)), np.repeat([7], 10)),
        (np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2),
        (np.random.default_rng(0).normal(size=(40, 1)), None),
        (np.ones((12, 4)), None),
        (np.random.default_rng(0).normal(size=(2, 4)), None),
    ],
)
def test_small_and_odd_data_have_reports(rows, labels):
    selection = gmmatch.select(rows, keep=0.5, labels=labels)
    report = summarise(selection, as_source(rows, labels))
    json.dumps(report.as_dict(), allow_nan=False)
    assert len(report.map.row) == len(rows)
    assert report.labelled == (labels is not None)


def test_more_classes_than_there_is_room_for_are_listed_by_size(monkeypatch):
    monkeypatch.setattr("gmmatch.reporting.inputs.MOST_CLASSES", 500)
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(520), rng.integers(0, 510, 90)])
    rows = rng.normal(size=(len(labels), 3))
    selection = gmmatch.select(rows, keep=530, labels=labels, method="random")
    report = summarise(selection, as_source(rows, labels))
    assert len(report.classes.names) == 500
    assert report.classes.left_out == 20
    assert min(report.classes.sizes) == 1
    assert sum(report.classes.sizes) == len(labels) - 20
    listed = [report.classes.names[code] if code >= 0 else None for code in report.map.code]
    truth = [str(labels[row]) for row in report.map.row]
    assert all(name in (None, label) for name, label in zip(listed, truth, strict=True))
    assert listed.count(None) == 20


def test_long_and_odd_ids_are_kept_or_shortened(blobs):
    rows, labels = blobs
    ids = np.array([f"‮{row}</script>" if row % 2 else "x" * 5000 + str(row) for row in range(400)])
    selection = gmmatch.select(rows, keep=0.2, labels=labels)
    report = summarise(selection, as_source(rows, labels, ids))
    assert max(map(len, report.map.id)) == 200
    at = report.map.row.index(3)
    assert report.map.id[at] == "‮3</script>"


def test_a_selection_by_unit_rows_is_measured_as_it_was_made(blobs):
    rows, labels = blobs
    selection = gmmatch.select(rows, keep=0.2, labels=labels, normalize="unit", guard="off")
    report = summarise(selection, as_source(rows, labels))
    assert report.curve.objective[-1] == pytest.approx(selection.objective, rel=1e-4)
    assert max(report.map.distance) <= 2.0
    assert "--param normalize=unit" in report.glance.command


def test_the_page_of_a_method_that_matches_no_centre_has_an_objective(made):
    source = made[1]
    selection = gmmatch.select(source, keep=0.1, method="random")
    glance = summarise(selection, source).glance
    assert np.isnan(selection.objective)
    assert glance.objective > 0


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"guard": "off"},
        {"by_class": False},
        {"budgets": {"ant": 1, "bee": 1, "cow": 2}},
        {"method": "gm-matching-paper"},
        {"method": "facility-location", "guard": "auto"},
        {"random_state": 7, "step": "residual"},
    ],
)
def test_the_python_of_the_page_repeats_the_selection(blobs, params):
    X, y = blobs
    selection = gmmatch.select(X, y, keep=0.2, **params)
    page = summarise(selection, gmmatch.open(X, y))
    again = eval(page.glance.python, {"gmmatch": gmmatch, "X": X, "y": y})
    assert again.indices.tolist() == selection.indices.tolist()


def test_the_python_of_the_page_names_the_files_that_the_rows_came_from(blobs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = blobs
    rows = [[*map(str, row), name] for row, name in zip(X.tolist(), y.tolist(), strict=True)]
    rows[7][-1] = ""
    head = [f"f{n}" for n in range(X.shape[1])]
    lines = [",".join(row) for row in [[*head, "kind"], *rows]]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    kept = gmmatch.select("rows.csv", labels="kind", keep=40, on_bad_rows="drop", output="kept.parquet")
    pages = [
        kept.report("page.html"),
        gmmatch.report("kept.parquet", "rows.csv", "again.html", labels="kind"),
    ]
    for page in pages:
        assert page.glance.python.startswith("gmmatch.select('rows.csv', labels='kind', on_bad_rows='drop'")
        again = eval(page.glance.python, {"gmmatch": gmmatch})
        assert again.indices.tolist() == kept.indices.tolist()
    assert "in the same folder" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "wanted",
    [
        {"keep": "0.2k", "cost": np.linspace(1, 9, 400), "duplicates": "drop"},
        {"keep": 40, "holdout": np.zeros((1, 8)), "exclude": [3, 17, 250], "quality": np.arange(400.0)},
        {"keep": "+20", "include": [5, 9, 300]},
        {"keep": 40, "match_to": np.full((6, 8), 3.0)},
        {"keep": 40, "strata": np.arange(400) % 5, "budgets": "equal"},
        {"keep": 40, "probabilities": np.full((400, 3), 1 / 3), "fix": 0.9},
    ],
)
def test_the_python_of_the_page_names_what_else_was_wanted(blobs, wanted):
    X, y = blobs
    selection = gmmatch.select(X, y, **wanted)
    glance = summarise(selection, gmmatch.open(X, y)).glance
    again = eval(glance.python, {"gmmatch": gmmatch, "X": X, "y": y, **wanted})
    assert again.indices.tolist() == selection.indices.tolist()
    assert all(f"--{name.replace('_', '-')} " in glance.command for name in wanted)


def test_without_labels_no_gallery_claims_what_a_smaller_budget_keeps(blobs):
    X, y = blobs
    assert "smaller budget" in summarise(gmmatch.select(X, y, keep=40), gmmatch.open(X, y)).galleries[0].about
    bare = summarise(gmmatch.select(X, keep=40), gmmatch.open(X))
    assert all("smaller" not in gallery.about and "class" not in gallery.about for gallery in bare.galleries)


def test_without_labels_no_sentence_speaks_of_classes(blobs):
    X = blobs[0].copy()
    X[7] = 400.0
    report = summarise(gmmatch.select(X, keep=40), gmmatch.open(X))
    assert report.map.reason[report.map.row.index(7)] == "It is far outside the other rows."


def test_picks_that_match_other_rows_are_measured_by_one_centre(blobs):
    """The curve, its end, and what random subsets do are about the same centre, and a note names it."""
    X, y = blobs
    selection = gmmatch.select(X, y, keep=40, match_to=np.full((6, 8), 3.0))
    report = summarise(selection, gmmatch.open(X, y))
    assert report.glance.objective == report.curve.objective[-1]
    assert any(note.startswith("The picks match match_to: distances") for note in report.notes)
    centers = prepare(selection, gmmatch.open(X, y)).centers
    kept = y[selection.indices]
    far = [
        (kept == name).mean() * np.linalg.norm(X[selection.indices][kept == name].mean(axis=0) - center)
        for name, center in zip(np.unique(kept), centers, strict=True)
    ]
    assert report.glance.objective == pytest.approx(sum(far), rel=1e-4)


def test_the_python_of_a_page_without_labels_and_with_bad_rows_repeats_it(blobs):
    X = blobs[0].copy()
    X[3, 0] = np.nan
    data = gmmatch.open(X, on_bad_rows="drop")
    selection = gmmatch.select(data, keep=40)
    page = summarise(selection, data)
    again = eval(page.glance.python, {"gmmatch": gmmatch, "X": X})
    assert again.indices.tolist() == selection.indices.tolist()
    assert not page.glance.prefixes  # clusters depend on the budget
    assert summarise(gmmatch.select(X[4:], keep=40, clusters="off"), gmmatch.open(X[4:])).glance.prefixes


def test_the_headline_counts_suspects_that_were_kept(blobs):
    rows, labels = blobs
    data = gmmatch.open(rows, labels)
    found = summarise(gmmatch.select(data, keep=0.2), data).glance
    assert found.prefixes
    assert found.kept_suspects == 0
    everything = summarise(gmmatch.select(data, keep=1.0), data).glance
    assert everything.kept_suspects == everything.suspects > 0


def test_labels_are_saved_by_id_unless_ids_repeat(blobs):
    rows, labels = blobs
    names = np.array([f"row {row}" for row in range(400)])
    data = Dataset(rows, "blobs", "array", labels=labels, ids=names)
    selection = gmmatch.select(rows, labels, keep=0.2)
    assert summarise(selection, data).review.labels.ids == names.tolist()
    names[7] = names[8]
    assert summarise(selection, data.replace(ids=names)).review.labels.ids is None


def test_without_labels_the_page_speaks_of_no_class():
    rows = np.random.default_rng(3).normal(size=(120, 5))
    report = summarise(gmmatch.select(rows, keep=12), as_source(rows))
    abouts = [tab.about for tab in report.review.tabs]
    assert len(abouts) == 2
    assert not any("class" in about for about in abouts)
