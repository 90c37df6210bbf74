"""Rows for labelling tools: their formats, suspects first, decisions back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.errors import GmmatchError

RNG = np.random.default_rng(0)
TRUE = np.repeat(["cat", "dog"], 60)
LABELS = TRUE.copy()
LABELS[[3, 70]] = ["dog", "cat"]
ROWS = (RNG.normal(size=(120, 8)) + 3.0 * (TRUE == "dog")[:, None]).astype(np.float32)
NAMES = [f"row-{number}" for number in range(120)]


@pytest.fixture
def kept():
    return gmmatch.select(gmmatch.open(ROWS, LABELS, ids=NAMES), keep=0.2)


def test_label_studio_gets_tasks_with_predictions(kept, tmp_path) -> None:
    file = tmp_path / "tasks.json"
    assert gmmatch.export(kept, ROWS, file, to="label-studio", labels=LABELS, ids=NAMES) == 120
    tasks = json.loads(file.read_text())
    assert {task["data"]["id"] for task in tasks[:2]} == {"row-3", "row-70"}
    first = next(task for task in tasks if task["data"]["row"] == 3)
    assert first["predictions"][0]["result"][0]["value"]["choices"] == ["cat"]
    assert 0.5 < first["predictions"][0]["score"] <= 1
    assert sum(task["data"]["kept"] for task in tasks) == 24
    assert "predictions" not in tasks[-1]


def test_argilla_gets_records_with_suggestions(kept, tmp_path) -> None:
    file = tmp_path / "records.jsonl"
    gmmatch.export(kept, ROWS, file, to="argilla", labels=LABELS, ids=NAMES)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert {record["id"] for record in records[:2]} == {"row-3", "row-70"}
    assert records[0]["suggestions"][0]["question_name"] == "label"


def test_cleanlab_and_spotlight_get_tables(kept, tmp_path) -> None:
    gmmatch.export(kept, ROWS, tmp_path / "issues.csv", to="cleanlab", labels=LABELS, ids=NAMES)
    with (tmp_path / "issues.csv").open() as file:
        issues = list(csv.DictReader(file))
    assert {line["id"] for line in issues if line["is_label_issue"] == "True"} == {"row-3", "row-70"}
    assert [line["label_quality"] for line in issues] == sorted(
        (line["label_quality"] for line in issues), key=float
    )
    gmmatch.export(kept, ROWS, tmp_path / "rows.parquet", to="spotlight", labels=LABELS)
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == 120
    assert {"id", "label", "suspicion", "kept", "suggested"} <= set(table.column_names)


def test_fiftyone_gets_samples_of_photos(tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(24):
        folder = tmp_path / "photos" / ("dark" if number % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = RNG.integers(0, 60, (8, 8), dtype=np.uint8) + (0 if number % 2 else 180)
        image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    data = gmmatch.open(tmp_path / "photos", encoder="pixels")
    kept = gmmatch.select(data, keep=0.5)
    gmmatch.export(kept, data, tmp_path / "samples.json", to="fiftyone")
    samples = json.loads((tmp_path / "samples.json").read_text())["samples"]
    assert len(samples) == 24
    assert samples[0]["ground_truth"]["label"] in ("dark", "light")
    assert all(sample["filepath"].endswith(".png") for sample in samples)


def test_decisions_come_back_by_id(kept, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    with open("labels.csv", "w") as file:
        file.write(
            "id,label\n" + "".join(f"{name},{label}\n" for name, label in zip(NAMES, LABELS, strict=True))
        )
    np.save("names.npy", np.array(NAMES))
    run = CliRunner().invoke
    words = "rows.npy --labels labels.csv --ids names.npy"
    assert run(app, f"select {words} --keep 20% -o kept.parquet".split()).exit_code == 0
    done = run(app, f"export kept.parquet {words} --to cleanlab -o issues.csv".split())
    assert done.exit_code == 0, done.output
    assert "wrote 120 rows for cleanlab" in done.stdout
    with open("issues.csv") as file:
        decided = {line["id"]: line["predicted_label"] for line in csv.DictReader(file)}
    with open("decided.csv", "w") as file:
        file.write("id,label\n" + "".join(f"{name},{label}\n" for name, label in decided.items()))
    again = gmmatch.open("rows.npy", labels="decided.csv", ids="names.npy")
    assert again.labels.tolist() == TRUE.tolist()


@pytest.mark.parametrize(
    ("to", "file", "said"),
    [
        ("nowhere", "a.json", "to must be"),
        ("label-studio", "a.csv", "must end in .json"),
        ("fiftyone", "a.json", "shows images in files"),
    ],
)
def test_what_cannot_be_exported_is_refused(kept, tmp_path, to, file, said) -> None:
    with pytest.raises(GmmatchError, match=said):
        gmmatch.export(kept, ROWS, tmp_path / file, to=to, labels=LABELS)
    assert not (tmp_path / file).exists()
    with pytest.raises(GmmatchError, match="made from 120 rows"):
        gmmatch.export(kept, ROWS[:50], tmp_path / "b.json", to="label-studio", labels=LABELS[:50])


def test_rows_or_labels_that_it_was_not_made_from_are_refused(kept, tmp_path) -> None:
    """What is known of one row would stand beside another."""
    order, file = np.arange(120)[::-1], tmp_path / "tasks.json"
    others = ((ROWS[order], LABELS[order]), (ROWS, LABELS[order]), (ROWS, np.full(120, "cat")))
    for rows, labels in others:
        with pytest.raises(GmmatchError, match="not what the selection was made from"):
            gmmatch.export(kept, rows, file, to="label-studio", labels=labels)
        assert not file.exists()
        gmmatch.export(kept, rows, file, to="label-studio", labels=labels, force=True)
        file.unlink()
    with pytest.raises(GmmatchError, match="name them: labels="):
        gmmatch.export(kept, ROWS, file, to="label-studio")


def test_images_are_encoded_to_be_compared(tmp_path, monkeypatch) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    for kind in ("dark", "light"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(12):
            pixels = RNG.integers(0, 60, (8, 8), dtype=np.uint8) + 180 * (kind == "light")
            image.fromarray(pixels.astype(np.uint8)).save(f"photos/{kind}/{number}.png")
    gmmatch.select(gmmatch.open("photos", encoder="pixels"), keep=0.5).save("kept.parquet")
    words = "export kept.parquet photos --encoder pixels --to fiftyone -o samples.json"
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    image.fromarray(np.zeros((8, 8), np.uint8)).save("photos/light/3.png")
    done = CliRunner().invoke(app, [*words.split(), "--overwrite"])
    assert done.exit_code == 3
    assert "not what the selection was made from" in done.stderr
    assert "--force goes on" in done.stderr


def test_rows_that_were_left_out_or_unlabelled_are_compared_as_they_were(tmp_path) -> None:
    rows, labels = ROWS.copy(), [*LABELS[:-9], *[None] * 9]
    rows[5] = np.nan
    for unlabelled in ("class", "pick"):
        opening = {"on_bad_rows": "drop", "unlabelled": unlabelled}
        data = gmmatch.open(rows, labels, **opening)
        file = tmp_path / f"{unlabelled}.json"
        gmmatch.select(data, keep=0.3).save(tmp_path / "kept.parquet")
        count = gmmatch.export(
            tmp_path / "kept.parquet", rows, file, to="label-studio", labels=labels, **opening
        )
        assert count == len(json.loads(file.read_text()))
        assert 5 not in [task["data"]["row"] for task in json.loads(file.read_text())]
