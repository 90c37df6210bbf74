"""Inputs that change, files that are more than they seem, names that command a terminal or a spreadsheet."""

import csv
import errno
import gzip
import importlib
import io
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import gmmatch
from gmmatch import api, checkpoints, exporting
from gmmatch.checkpoints import FileCheckpoint, pack, unpack
from gmmatch.cli import Terminated, lacks_memory
from gmmatch.cli.commands import app
from gmmatch.data import read_values
from gmmatch.data.formats import base
from gmmatch.encoders.store import KEY_BYTES, VectorStore, trim
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.files import remove_partials, whole_file, whole_files
from gmmatch.lab.corrupt import inputs as corrupting
from gmmatch.run import Plan
from gmmatch.run import run as run_plan

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 900)
ROWS = RNG.normal(size=(900, 5)) + 2 * LABELS[:, None]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    np.save("labels.npy", LABELS)
    return tmp_path


def run(words):
    return CliRunner().invoke(app, words.split())


class TestTheIdentityOfAnInput:
    def test_a_state_of_other_rows_is_refused(self, folder, monkeypatch):
        monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN_SAVES", -1.0)
        monkeypatch.setattr(FileCheckpoint, "discard", lambda self: None)
        words = "select rows.npy --labels labels.npy --keep 10% --param batch_size=64"
        assert run(words).exit_code == 0
        changed = ROWS.copy()
        changed[1::2] += 1e-9  # half of the rows, none of which a look at some rows need see
        np.save("rows.npy", changed)
        done = run(f"{words} --resume")
        assert done.exit_code == 3
        assert "belongs to another input or other parameters" in done.output

    def test_a_report_knows_other_rows(self, folder):
        assert run("select rows.npy --keep 10%").exit_code == 0
        changed = ROWS.copy()
        changed[501, 3] = np.nextafter(changed[501, 3], 9)
        np.save("rows.npy", changed)
        done = run("report kept.parquet rows.npy -o page.html")
        assert done.exit_code == 3
        assert "not what the selection was made from" in done.output

    def test_rows_that_change_while_they_are_used_give_no_selection(self, folder, monkeypatch):
        fit = gmmatch.GMMatching.fit

        def interfering(self, *given, **named):
            os.utime("rows.npy", ns=(0, 0))
            return fit(self, *given, **named)

        monkeypatch.setattr(gmmatch.GMMatching, "fit", interfering)
        done = run("select rows.npy --keep 10%")
        assert done.exit_code == 3
        assert "rows.npy changed while it was in use" in done.output
        assert not Path("kept.parquet").exists()

    @pytest.mark.parametrize(
        ("words", "module", "name"),
        [
            ("export kept.parquet rows.npy --to spotlight -o out.csv", exporting, "check_same"),
            ("leaks rows.npy few.npy -o out.csv", api, "check_input"),
            ("corrupt rows.npy -o out.npy", corrupting, "contaminate"),
            ("corrupt labels.npy -o out.npy", corrupting, "corrupt_labels"),
        ],
    )
    def test_files_that_change_while_they_are_used_give_no_output(
        self, folder, monkeypatch, words, module, name
    ):
        np.save("few.npy", ROWS[:9])
        gmmatch.select("rows.npy", keep=9).save("kept.parquet")
        real = getattr(module, name)

        def interfering(*given, **named):
            for file in ("rows.npy", "labels.npy"):
                os.utime(file, ns=(0, 0))
            return real(*given, **named)

        monkeypatch.setattr(module, name, interfering)
        done = run(words)
        assert done.exit_code == 3, done.output
        assert "changed while it was in use" in done.output
        assert not list(folder.glob("*out*"))

    def test_what_is_opened_has_the_fingerprint_of_its_selection(self, folder):
        data = gmmatch.open("rows.npy", labels="labels.npy")
        assert data.fingerprint() == gmmatch.select(data, keep=9).fingerprint
        assert gmmatch.GMMatching(keep=9).fit(ROWS, LABELS).selection_.fingerprint == data.fingerprint()


class TestWhatOutlivesAKill:
    def test_a_verdict_is_kept_and_the_picks_are_the_same(self, folder, monkeypatch):
        monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN_SAVES", -1.0)
        words = "select rows.npy --labels labels.npy --keep 10%"
        assert run(f"{words} -o whole.parquet").exit_code == 0

        def interrupted(self, *given, **named):
            raise Terminated

        with monkeypatch.context() as patched:
            patched.setattr(gmmatch.GMMatching, "fit", interrupted)
            done = run(words)
        assert done.exit_code == 143
        assert "go on with: gmmatch" in done.output
        left = sorted(path.name for path in folder.iterdir() if "state" in path.name)
        assert left == ["kept.parquet.state.learned", "kept.parquet.state.verdict"]
        with monkeypatch.context() as patched:
            module = importlib.import_module("gmmatch.trust.judge")  # the name in the package is the function
            patched.setattr(module._Sample, "_learn_labels", interrupted)
            patched.setattr(module, "Judge", interrupted)
            assert run(f"{words} --resume").exit_code == 0
        assert Path("kept.parquet").read_bytes() == Path("whole.parquet").read_bytes()
        assert sorted(path.name for path in folder.iterdir()) == [
            "kept.parquet", "labels.npy", "rows.npy", "whole.parquet",
        ]  # fmt: skip

    def test_records_are_packed_as_arrays_and_nothing_else_is_made(self):
        verdict = gmmatch.trust.judge(ROWS, LABELS, 3, 0)
        again = unpack(pack(verdict))
        np.testing.assert_array_equal(again.tiers, verdict.tiers)
        np.testing.assert_array_equal(again.rules.classifier.weights, verdict.rules.classifier.weights)
        assert again.summary() == verdict.summary()
        for module, name in (("os", "system"), ("gmmatch.files", "make_folder"), ("gmmatch.cli", "main")):
            forged = {"record": [module, name], "fields": {}}
            with pytest.raises(ValueError, match="is no record"):
                unpack({"skeleton": np.array(json.dumps(forged))})

    def test_resuming_nothing_is_said(self, folder):
        with pytest.raises(InvalidParameter, match="resume goes on from a saved state; name its file"):
            gmmatch.select(ROWS, keep=9, resume=True)
        done = run("select rows.npy --keep 10% --resume")
        assert done.exit_code == 0
        assert "nothing to resume: there is no kept.parquet.state; this run starts anew" in done.output

    def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(self, tmp_path):
        left = tmp_path / ".out.0123456789abcdef.partial"
        left.mkdir()
        (left / "0.out").write_text("half")
        (tmp_path / ".out.notes.partial").write_text("of somebody else")
        with whole_file(tmp_path / "out") as slow:
            with whole_file(tmp_path / "out") as partial:
                partial.write_text("whole")
            remove_partials(tmp_path / "out")
            slow.write_text("whole, and later")
        assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes.partial", "out"]
        assert (tmp_path / "out").read_text() == "whole, and later"

    def test_files_are_on_the_disk_before_they_are_named(self, tmp_path, monkeypatch):
        done = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: done.append("flushed"))
        replace = os.replace
        monkeypatch.setattr(os, "replace", lambda *names: (done.append("named"), replace(*names)))
        with whole_files(tmp_path / "a", tmp_path / "b") as (a, b):
            a.write_text("a")
            b.mkdir()
            (b / "c").write_text("c")
        assert done == ["flushed"] * 4 + ["named", "named", "flushed"]

    def test_a_failure_to_clean_up_does_not_hide_what_failed(self, tmp_path, monkeypatch):
        def refuse(*given, **named):
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(Path, "unlink", refuse)
        monkeypatch.setattr(os, "replace", refuse)
        with (
            pytest.raises(InvalidInput, match=r"cannot write .*out: Read-only file system"),
            whole_file(tmp_path / "out") as partial,
        ):
            partial.write_text("x")


class TestSizesThatAreDeclared:
    def test_an_archive_is_measured_before_it_is_unpacked(self, tmp_path):
        np.savez_compressed(tmp_path / "x.npz", x=np.zeros((20_000, 500)))
        assert (tmp_path / "x.npz").stat().st_size < 200_000
        with pytest.raises(InvalidInput, match=r"x.npz:x unpacks to 80 MB; expected at most the 10 MB"):
            gmmatch.select(tmp_path / "x.npz", keep=5, memory="10MB")
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 100)}
        )
        with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
            archive.writestr("x.npy", head.getvalue())
        with pytest.raises(InvalidInput, match=r"unpacks to 800,000 MB|its header promises"):
            gmmatch.open(tmp_path / "y.npz")

    def test_a_packed_idx_file_is_measured_before_it_is_unpacked(self, tmp_path):
        body = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**20, 2**12, 2**12)
        (tmp_path / "x-images-idx3-ubyte.gz").write_bytes(gzip.compress(body + bytes(10**6)))
        with pytest.raises(InvalidInput, match=r"unpacks to .* MB"):
            gmmatch.open(tmp_path / "x-images-idx3-ubyte.gz")
        small = bytes([0, 0, 8, 3]) + struct.pack(">3I", 1, 2, 2)
        (tmp_path / "y-images-idx3-ubyte.gz").write_bytes(gzip.compress(small + bytes(10**7)))
        with pytest.raises(InvalidInput, match="has more than 20 bytes; its head promises 20"):
            gmmatch.open(tmp_path / "y-images-idx3-ubyte.gz")

    def test_a_table_of_other_rows_is_known_by_its_footer(self, tmp_path):
        """Any number of equal values takes no room in Parquet."""
        rows, file = np.eye(6), tmp_path / "x.parquet"
        pq.write_table(pa.table({"a": np.linspace(0.0, 1.0, 5000)}), file, use_dictionary=False)
        content = file.read_bytes()
        file.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
        with pytest.raises(InvalidInput, match="is not a readable Parquet file"):
            read_values(file, "labels")
        for given in ({"labels": file}, {"ids": file}):
            with pytest.raises(InvalidInput, match="has 5000 entries for 6 rows"):
                gmmatch.open(rows, **given)
        with pytest.raises(InvalidInput, match="has 5000 entries for 6 rows"):
            gmmatch.select(rows, keep=2, cost=file)
        with pytest.raises(InvalidInput, match=r"a row for each of 6; .* has 5,000"):
            gmmatch.select(rows, [0, 0, 0, 1, 1, 1], keep=2, probabilities=file)

    def test_a_table_of_labels_is_measured_before_it_is_read(self, tmp_path, monkeypatch):
        pq.write_table(pa.table({"id": np.arange(50), "label": np.zeros(50)}), tmp_path / "x.parquet")
        monkeypatch.setattr(base, "machine_memory", lambda: 799)
        with pytest.raises(InvalidInput, match=r"x\.parquet unpacks to"):
            gmmatch.open(np.eye(50), tmp_path / "x.parquet")

    def test_an_image_is_measured_before_it_is_damaged(self, tmp_path):
        (tmp_path / "photos").mkdir()
        Image.new("1", (9000, 9000)).save(tmp_path / "photos" / "a.png")
        done = run(f"corrupt {tmp_path}/photos --share 100% -o {tmp_path}/out")
        assert done.exit_code == 3
        assert "9000 x 9000 pixels; at most 25,000,000 are damaged" in done.output
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("length", [2**62, 10**6])
    def test_a_header_that_is_longer_than_its_file(self, tmp_path, length):
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", length) + b"{}")
        with pytest.raises(InvalidInput, match=f"its header claims {length} bytes"):
            gmmatch.open(tmp_path / "x.safetensors")

    def test_brackets_without_end(self, tmp_path):
        deep = b"[" * 100_000
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(deep)) + deep)
        (tmp_path / "x.jsonl").write_bytes(deep)
        (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(deep)) + deep)
        for name in ("x.safetensors", "x.jsonl", "x.npy"):
            with pytest.raises(InvalidInput) as caught:
                gmmatch.open(tmp_path / name)
            assert len(str(caught.value)) < 500

    def test_a_folder_of_datasets_names_no_file_outside_it(self, tmp_path):
        for name in ("../rows.arrow", "/etc/passwd"):
            (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
            (tmp_path / "dataset_info.json").write_text("{}")
            with pytest.raises(InvalidInput, match="a file outside the folder"):
                gmmatch.open(tmp_path)

    def test_a_table_of_images_stays_in_its_folder(self, tmp_path, monkeypatch):
        (tmp_path / "here").mkdir()
        Image.new("L", (8, 8)).save(tmp_path / "outside.png")
        for name in ("../outside.png", str(tmp_path / "outside.png"), "/etc/passwd"):
            (tmp_path / "here" / "t.csv").write_text(f"image\n{name}\n")
            with pytest.raises(
                InvalidInput, match=r"lies outside .*here; GMMATCH_IMAGE_ROOT names"
            ) as caught:
                gmmatch.embed(tmp_path / "here" / "t.csv", "pixels", image="image")
            assert "root:" not in str(caught.value)
        monkeypatch.setenv("GMMATCH_IMAGE_ROOT", str(tmp_path))
        (tmp_path / "here" / "t.csv").write_text("image\noutside.png\n")
        assert len(gmmatch.embed(tmp_path / "here" / "t.csv", "pixels", image="image")) == 1


class TestNames:
    def test_cells_that_a_spreadsheet_would_compute(self, folder):
        ids = np.array([f"={row}" for row in range(900)])
        gmmatch.select(ROWS, keep=9, labels=LABELS, ids=ids, output="kept.csv")
        with open("kept.csv", newline="") as file:
            cells = [line["id"] for line in csv.DictReader(file)]
        assert all(cell.startswith("'=") for cell in cells)

    def test_names_of_files_that_a_spreadsheet_would_compute(self, folder):
        for kind in ("=a", "+b"):
            Path("photos", kind).mkdir(parents=True)
            for number in range(3):
                Image.new("L", (8, 8), number).save(Path("photos", kind, f"{number}.png"))
        assert run("corrupt photos -o spoilt").exit_code == 0
        assert run("corrupt photos --kind symmetric -o moved").exit_code == 0
        for name, columns in (("spoilt", ["file"]), ("moved", ["file", "label"])):
            with open(f"{name}.mask.csv", newline="") as file:
                lines = list(csv.DictReader(file))
            assert len(lines) == 6
            assert all(line[column][:2] in ("'=", "'+") for line in lines for column in columns)

    def test_corrected_labels_are_read_again_as_they_were(self, folder):
        signs = np.array(["+", "-", "=1"])[LABELS]
        found = gmmatch.suspects(ROWS, signs, fix="better.csv")
        again = gmmatch.open(ROWS, labels="better.csv").labels
        assert again.tolist() == found.fix(signs, 0.9).tolist()

    def test_an_id_of_two_lines_is_no_line(self, folder):
        ids = np.array([f"{row}\nx" for row in range(900)])
        with pytest.raises(InvalidInput, match=r"is more than one line of a \.txt"):
            gmmatch.select(ROWS, keep=9, ids=ids, output="kept.txt")
        assert not Path("kept.txt").exists()

    def test_file_names_do_not_command_the_terminal(self, folder):
        done = CliRunner().invoke(app, ["select", "a\x1b[2J\nb.npy", "--keep", "1"])
        assert done.exit_code == 3
        assert "\x1b" not in done.output
        assert "a\\x1b[2J\\nb.npy" in done.output


def test_the_cache_is_shown_trimmed_and_cleared(tmp_path, monkeypatch):
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path))
    keys = RNG.integers(0, 256, (50, KEY_BYTES), dtype=np.uint8)
    for number, name in enumerate(("old", "used", "new")):
        with VectorStore(tmp_path / "vectors" / name) as store:
            store.append(keys, np.ones((50, 1000), np.float32))
        for file in (tmp_path / "vectors" / name).iterdir():
            os.utime(file, (number, number))
    VectorStore(tmp_path / "vectors" / "used").close()  # which is a use of it
    shown = json.loads(run("cache --json").stdout)
    assert shown["kept"] == dict.fromkeys(("vectors/new", "vectors/old", "vectors/used"), 201_000)
    trim(tmp_path / "vectors", 450_000)
    shown = json.loads(run("cache --json").stdout)
    assert shown["kept"] == {"vectors/new": 201_000, "vectors/old": 0, "vectors/used": 201_000}
    trim(tmp_path / "vectors", 1)
    assert (VectorStore(tmp_path / "vectors" / "used").find(keys) >= 0).all()
    assert run("cache --clear").exit_code == 0
    assert json.loads(run("cache --json").stdout)["kept"] == {}


@pytest.mark.parametrize("words", ["select rows.npy --keep 5 --report page.html", "cache"])
def test_a_user_without_a_home_is_told_so(folder, words):
    """As in a container that runs with any number of a user."""
    code = (
        "import pwd, sys; pwd.getpwuid = {}.__getitem__; from gmmatch import cli;"
        f" sys.argv = ['gmmatch', *{words.split()}]; cli.main()"
    )
    homes = ("HOME", "GMMATCH_CACHE", "XDG_CACHE_HOME")
    env = {name: value for name, value in os.environ.items() if name not in homes}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        3,
        "gmmatch: this user has no home folder; name one that may be written to: HOME=FOLDER\n",
    )


def test_the_main_jobs_open_no_socket(folder, monkeypatch):
    def refuse(*given, **named):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("GMMATCH_CACHE", str(folder / "cache"))
    np.save("images.npy", RNG.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8))
    for words in (
        "select rows.npy --labels labels.npy --keep 10% --suspects wrong.csv --report page.html",
        "suspects rows.npy --labels labels.npy -o all.csv",
        "embed images.npy --encoder pixels -o vectors.npy",
        "corrupt images.npy --share 20% -o spoilt.npy",
        "report kept.parquet rows.npy --labels labels.npy -o again.html",
        "methods",
        "cache",
    ):
        done = run(words)
        assert done.exit_code == 0, f"{words}: {done.output}"


def test_a_run_writes_nothing_before_its_end(folder):
    outcome = run_plan(Plan(source="rows.npy", keep=9, output=Path("kept.parquet")))
    assert not Path("kept.parquet").exists()
    assert len(outcome.selection) == 9


def test_two_rows_without_labels(folder):
    assert sorted(gmmatch.select(np.array([[0.1], [-0.2]]), keep=1.0).indices.tolist()) == [0, 1]


def test_copies_of_three_rows_in_three_classes_have_no_head_to_learn_and_no_warning_escapes():
    rows = np.array([-1, 0, 1, -1, 0, 0, 1, -1, 0, -1, -1, 1, -1, -1, 0], float)[:, None]
    labels = np.array([2, 1, 1, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 1, 2])
    assert len(gmmatch.suspects(rows, labels).rows) == 15
    assert len(gmmatch.select(rows, keep=5, labels=labels)) == 5


class TestTooLittleMemory:
    @pytest.mark.parametrize(
        "error",
        [
            MemoryError(),
            OSError(errno.ENOMEM, "Cannot allocate memory"),
            ImportError("libarrow.so: failed to map segment from shared object"),
            RuntimeError("can't start new thread"),
        ],
    )
    def test_is_known_by_what_libraries_say_of_it(self, error):
        assert lacks_memory(error)
        outer = ImportError("could not load a library")
        outer.__context__ = error
        assert lacks_memory(outer)
        assert not lacks_memory(ImportError("no module named x"))

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform != "linux", reason="limits on address space are kept by Linux alone")
    @pytest.mark.parametrize("megabytes", [350, 400, 700])
    @pytest.mark.parametrize("command", ["select --keep 10% -o kept.npy", "suspects -o wrong.parquet"])
    def test_ends_in_a_sentence_and_does_not_hang_in_blas(self, folder, command, megabytes):
        """OpenBLAS asks for ever for a buffer that it is refused, also while it is loaded."""
        room = megabytes << 20
        words = f"{command} rows.npy --labels labels.npy"
        done = subprocess.run(
            [sys.executable, "-m", "gmmatch", *words.split()],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)),
        )
        assert done.returncode in (0, 3), done.stderr
        assert "Traceback" not in done.stderr


def test_an_interrupt_in_the_end_of_a_generator_is_not_lost():
    program = """
import os, signal, sys, time
from gmmatch import cli

def ends_late():
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

def run():
    late = ends_late()
    next(late)
    del late
    time.sleep(20)

sys.modules["gmmatch.cli.commands"] = type(sys)("commands")
sys.modules["gmmatch.cli.commands"].app = run
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems end it in other ways")
def test_a_mapped_file_that_loses_its_end_ends_the_process(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((100_000, 8)))
    script = (
        "import os, sys, gmmatch; data = gmmatch.open(sys.argv[1]); os.truncate(sys.argv[1], 9000);"
        " data.rows[99_000:].sum()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "rows.npy"], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGBUS
