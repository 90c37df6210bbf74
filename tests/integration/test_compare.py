import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from gmmatch.cli import app


def invoke(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def compared(*words):
    done = invoke(*words, "--json", "--quiet", "--workers", 1)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    pixels, labels = load_digits(return_X_y=True)
    words = np.array([f"digit {label}" for label in labels])
    np.save(folder / "rows.npy", pixels[:600].astype(np.float32))
    np.save(folder / "labels.npy", words[:600])
    np.save(folder / "images.npy", (pixels[:300] * 15).astype(np.uint8).reshape(-1, 8, 8))
    np.save(folder / "image_labels.npy", labels[:300])
    names = [f"p{column}" for column in range(64)]
    lines = [",".join([*names, "kind"])]
    lines += [
        ",".join([*(f"{value:g}" for value in row), word])
        for row, word in zip(pixels[:400], words[:400], strict=True)
    ]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_methods_are_compared_on_embeddings_with_and_without_damage(digits, tmp_path):
    facts = compared(
        digits / "rows.npy", "--labels", digits / "labels.npy", "--methods", "random,hard,gm-matching",
        "--keep", "10%,0.3", "--corrupt", "clean,labels-35,gross-20", "--seeds", 2, "-o", tmp_path / "out",
    )  # fmt: skip
    assert (facts["rows"], facts["classes"], facts["cells"]) == (600, 10, 3 * 2 * 3 * 2)
    mean = {(entry["scenario"], entry["method"], entry["keep"]): entry for entry in facts["results"]}
    assert (
        mean["labels-35", "gm-matching", 0.1]["accuracy"] > mean["labels-35", "random", 0.1]["accuracy"] + 5
    )
    assert mean["labels-35", "hard", 0.1]["corrupted_picks"] > 0.5
    assert mean["clean", "random", 0.3]["corrupted_picks"] is None
    written = {file.suffix for file in (tmp_path / "out").iterdir()}
    assert {".md", ".csv", ".tex", ".png"} <= written

    again = compared(
        digits / "rows.npy", "--labels", digits / "labels.npy", "--methods", "random,hard,gm-matching,easy",
        "--keep", "10%,0.3", "--corrupt", "clean", "--seeds", 2, "-o", tmp_path / "out",
    )  # fmt: skip
    assert (again["cells"], again["new"]) == (4 * 2 * 2, 2 * 2)


def test_a_table_of_numbers_is_compared_and_printed(digits, tmp_path):
    done = invoke(
        digits / "table.csv", "--labels", "kind", "--methods", "random,gm-matching", "--keep", "20%",
        "--seeds", 1, "-o", tmp_path, "--workers", 1,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "gm-matching" in done.output
    assert "wrote" in done.output


def test_budgets_and_a_guarded_baseline_are_compared(digits, tmp_path):
    words = [digits / "rows.npy", "--labels", digits / "labels.npy", "--methods", "random,random+guard"]
    words += ["--keep", "20%", "--corrupt", "labels-35", "--seeds", 1, "-o", tmp_path]
    facts = compared(*words)
    plain, guarded = facts["results"]
    assert guarded["method"] == "random+guard"
    assert guarded["corrupted_picks"] < plain["corrupted_picks"] / 2
    equal = compared(*words, "--budgets", "equal")
    assert equal["new"] == 2
    assert equal["results"] != facts["results"]
    assert any("equal budgets" in file.read_text() for file in tmp_path.glob("*.md"))


def test_a_network_learns_images(digits, tmp_path):
    pytest.importorskip("torch")
    facts = compared(
        digits / "images.npy", "--labels", digits / "image_labels.npy", "--methods", "random,el2n",
        "--keep", "50%", "--corrupt", "images-20", "--target", "resnet8", "--encoder", "resnet8",
        "--epochs", 1, "--seeds", 1, "-o", tmp_path,
    )  # fmt: skip
    assert [entry["target"] for entry in facts["results"]] == ["resnet8", "resnet8"]
    assert facts["results"][0]["corrupted_picks"] > 0


def bad_files(folder):
    np.save(folder / "rows.npy", np.ones((40, 3), dtype=np.float32))
    np.save(folder / "labels.npy", np.arange(40) % 2)
    np.save(folder / "short.npy", np.arange(39) % 2)
    np.save(folder / "rare.npy", np.arange(40) // 39)
    np.save(folder / "nan.npy", np.where(np.arange(120).reshape(40, 3) == 5, np.nan, 1.0))
    (folder / "text.csv").write_text("a,b,kind\n1,x,0\n2,y,1\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("none.npy",), 3, "there is no file"),
        (("rows.npy",), 3, "has no labels"),
        (("rows.npy", "--labels", "short.npy"), 3, "39 entries for 40 rows"),
        (("rows.npy", "--labels", "rare.npy"), 3, "at least 4 rows"),
        (("nan.npy", "--labels", "labels.npy"), 3, "row"),
        (("text.csv", "--labels", "kind"), 3, "of which 0 has 1"),
        (("text.csv", "--labels", "sort"), 3, "text.csv has the columns a, b, kind"),
        (("rows.npy", "--labels", "labels.npy", "--target", "resnet8"), 3, "expected uint8 images"),
        (("rows.npy", "--labels", "labels.npy", "--methods", "gm"), 2, "there is no method 'gm'"),
        (("rows.npy", "--labels", "labels.npy", "--budgets", "log"), 2, "--budgets must be"),
        (("rows.npy", "--labels", "labels.npy", "--methods", "random+x"), 2, "name+guard"),
        (("rows.npy", "--labels", "labels.npy", "--corrupt", "labels"), 2, "there is no scenario"),
        (("rows.npy", "--labels", "labels.npy", "--corrupt", "images-20"), 3, "rows.npy"),
        (("rows.npy", "--labels", "labels.npy", "--keep", "500"), 2, "--keep 1667% is 500 of 30 rows"),
        (("rows.npy", "--labels", "labels.npy", "--test-share", "2"), 2, "--test-share"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(words, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad_files(tmp_path)
    done = invoke(*words, "--workers", 1, "--seeds", 1)
    assert done.exit_code == code, done.output
    assert message in done.output


def test_own_data_is_told_of_in_its_own_terms(digits, tmp_path):
    words = [digits / "rows.npy", "--labels", digits / "labels.npy", "--methods", "random,gm-matching"]
    done = invoke(*words, "--keep", "20%", "--corrupt", "clean,labels-20", "--seeds", 1, "-o", tmp_path)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "compare.md").read_text()
    for strange in ("paper", "No corruption", "pixels", "deviations"):
        assert strange not in page
    assert "### As given" in page
    assert "keep 20 %" in done.output


def test_without_matplotlib_the_tables_are_there_and_a_sentence(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    words = [digits / "rows.npy", "--labels", digits / "labels.npy", "--methods", "random"]
    done = invoke(*words, "--keep", "20%", "--seeds", 1, "-o", tmp_path, "--workers", 1)
    assert done.exit_code == 0, done.output
    assert "no picture: Matplotlib is not installed" in done.output
    assert (tmp_path / "compare.md").exists()
    assert not (tmp_path / "curves.png").exists()
