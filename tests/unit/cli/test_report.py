from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.reporting.page import plot_library

pytest.importorskip("bokeh")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 240)
    np.save("rows.npy", rng.normal(size=(240, 8)) + labels[:, None])
    np.save("labels.npy", labels)
    np.save("images.npy", rng.integers(0, 256, (240, 8, 8), dtype=np.uint8))
    return lambda *words: CliRunner().invoke(app, [str(word) for line in words for word in line.split()])


def data_of(path):
    page = path.read_text(encoding="utf-8")
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


def test_select_writes_a_report_beside_the_selection(run, tmp_path):
    done = run("select rows.npy --labels labels.npy --keep 10% --report r.html --json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["report"], facts["kept"]) == ("r.html", 24)
    data = data_of(tmp_path / "r.html")
    assert (data["glance"]["kept"], data["glance"]["seconds"]) == (24, facts["seconds"])
    assert data["content"] == {}
    spoken = run("select rows.npy --labels labels.npy --keep 10% --report r.html --overwrite")
    assert spoken.stdout.splitlines()[0].endswith("wrote kept.parquet and r.html")


def test_the_command_of_a_saved_selections_page_repeats_it(run, tmp_path):
    lines = [f"r{n},{n % 7}.5,{n * n % 11},{'ab'[n % 2]}" for n in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["key,x,y,kind", *lines]))
    opening = "--ids key --labels kind"
    done = run(f"select table.csv {opening} --keep 12 --duplicates drop --budgets equal -o one.parquet")
    assert done.exit_code == 0, done.output
    assert run(f"report one.parquet table.csv {opening} -o page.html").exit_code == 0
    command = data_of(tmp_path / "page.html")["glance"]["command"]
    assert run(f"{command.removeprefix('gmmatch ')} -o two.parquet").exit_code == 0
    one, two = (gmmatch.load_selection(tmp_path / name) for name in ("one.parquet", "two.parquet"))
    assert one.ids.tolist() == two.ids.tolist()


def test_the_report_of_a_saved_selection_is_the_same(run, tmp_path):
    run("select rows.npy --labels labels.npy --keep 10% --report one.html --images images.npy")
    done = run("report kept.parquet rows.npy --labels labels.npy --images images.npy -o two.html --json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["kept"], facts["shown"], facts["previews"]) == (240, 24, 240, 240)
    one, two = data_of(tmp_path / "one.html"), data_of(tmp_path / "two.html")
    for part in ("curve", "map", "classes", "galleries", "content", "notes"):
        assert one[part] == two[part], part
    assert two["glance"]["command"] == "gmmatch select rows.npy --labels labels.npy --keep 24 --seed 0"


def test_suspects_are_looked_for_once(run, tmp_path):
    done = run(
        "select rows.npy --labels labels.npy --keep 10% --no-guard",
        "--suspects wrong.csv --report r.html --json",
    )
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert data_of(tmp_path / "r.html")["glance"]["suspects"] == facts["suspects"]["suspect"]


def test_images_that_are_encoded_are_shown(run, tmp_path):
    (tmp_path / "photos").mkdir()
    for row in range(30):
        Image.new("RGB", (8, 8), (8 * row, 0, 0)).save(tmp_path / "photos" / f"{row:02d}.png")
    done = run("select photos --encoder pixels --keep 5 --report r.html")
    assert done.exit_code == 0, done.output
    data = data_of(tmp_path / "r.html")
    assert data["content_kind"] == "image"
    assert len(data["content"]) == 30
    assert data["map"]["id"][-1].endswith(".png")
    again = run("report kept.parquet photos --encoder pixels -o s.html")
    assert again.exit_code == 0, again.output
    assert data_of(tmp_path / "s.html")["content"] == data["content"]


def test_texts_of_a_table_are_shown(run, tmp_path):
    (tmp_path / "texts.csv").write_text(
        "number,body\n" + "".join(f"{row},text {row}\n" for row in range(240))
    )
    run("select rows.npy --keep 10%")
    done = run("report kept.parquet rows.npy --texts texts.csv --text body -o r.html")
    assert done.exit_code == 0, done.output
    data = data_of(tmp_path / "r.html")
    assert data["content"]["0"] == f"text {data['map']['row'][0]}"
    assert not data["labelled"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("report missing.parquet rows.npy", 3, "cannot read the selection missing.parquet"),
        ("report kept.parquet missing.npy", 3, "there is no file missing.npy"),
        ("report kept.parquet rows.npy", 3, "made with labels, and rows.npy has none"),
        ("report kept.parquet rows.npy --labels labels.npy -o r.pdf", 2, "must end in .html; got r.pdf"),
        ("report kept.parquet rows.npy --labels labels.npy -o none/r.html", 3, "there is no folder none"),
        ("report kept.parquet rows.npy --labels labels.npy --projection tsne", 2, "got 'tsne'"),
        ("report kept.parquet rows.npy --labels labels.npy --images a --texts b", 2, "both given"),
        ("report kept.parquet rows.npy --labels labels.npy --images short.npy", 3, "3 images for 240 rows"),
        ("select rows.npy --keep 10% -o other.parquet --report r.pdf", 2, "must end in .html"),
        ("select rows.npy --keep 10% -o other.parquet --report r.html --projection x", 2, "got 'x'"),
        ("select rows.npy --keep 10% -o other.parquet --report r.html --images short.npy", 3, "3 images"),
    ],
)
def test_mistakes_get_a_sentence_an_exit_code_and_no_file(run, tmp_path, words, code, sentence):
    assert run("select rows.npy --labels labels.npy --keep 10%").exit_code == 0
    np.save("short.npy", np.zeros((3, 8, 8), np.uint8))
    before = sorted(tmp_path.iterdir())
    done = run(words)
    assert done.exit_code == code, done.output
    assert sentence in done.stderr
    assert done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_library_is_named_before_any_work(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.resources", None)
    plot_library.cache_clear()
    done = run("select rows.npy --keep 10% --report r.html")
    assert done.exit_code == 4
    assert "pip install bokeh (the extra gmmatch[report])" in done.stderr
    assert not (tmp_path / "kept.parquet").exists()
    plot_library.cache_clear()
