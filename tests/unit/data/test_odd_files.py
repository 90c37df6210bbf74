"""Files that are no files, names that are no text, numbers and columns beyond measure: one sentence."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.compute._worker import by_path
from gmmatch.data import open_dataset
from gmmatch.data.formats.text_files import Records
from gmmatch.data.request import Request
from gmmatch.encoders.base import PixelEncoder
from gmmatch.errors import GmmatchError, InvalidInput
from gmmatch.lab.corrupt.folder import corrupt_folder

RNG = np.random.default_rng(0)
SPECIAL = {
    "pipe": os.mkfifo,
    "socket": lambda path: bind(path),
    "device": lambda path: os.symlink("/dev/zero", path),
    "dangling": lambda path: os.symlink("nowhere.png", path),
    "loop": lambda path: os.symlink(os.path.basename(path), path),
}


def bind(path):
    # The address of a socket is short, so that it is made by its name in its folder.
    before = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.basename(path))
    finally:
        os.chdir(before)


@contextlib.contextmanager
def within(seconds):
    """Fail where something waits for ever."""

    def stop(*_):
        raise AssertionError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            image = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(image).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_in_a_folder_of_images_is_a_bad_row(photos, kind):
    SPECIAL[kind](str(photos / "a" / "x.png"))
    with within(60):
        with pytest.raises(InvalidInput, match=r"1 of 13 rows cannot be encoded: a/x\.png: "):
            gmmatch.select("photos", keep=4, encoder="pixels")
        kept = gmmatch.select(
            "photos", keep=4, encoder="pixels", on_bad_rows="drop", output="kept.parquet", all_rows=True,
            report="page.html", materialize="rows", suspects="wrong.csv",
        )  # fmt: skip
        assert len(kept) == 4
        assert 6 not in kept.indices.tolist()
        assert kept.info.bad_rows == 1
        assert len(gmmatch.embed("photos", "pixels", on_bad_rows="drop", output="vectors.npy")) == 12
        with pytest.raises(
            InvalidInput, match=r"x\.png is no file but a pipe, a device or a link to nothing"
        ):
            corrupt_folder("photos", "spoilt")
    assert not Path("spoilt").exists()


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "dangling"])
@pytest.mark.parametrize("ending", ["npy", "parquet", "csv"])
def test_what_is_no_file_among_shards_is_refused(tmp_path, kind, ending):
    for part in range(3):
        if ending == "npy":
            np.save(tmp_path / f"part{part}.npy", np.eye(4))
        elif ending == "parquet":
            pq.write_table(pa.table({"x": np.eye(4).tolist()}), tmp_path / f"part{part}.parquet")
    SPECIAL[kind](str(tmp_path / f"part9.{ending}"))
    said = r"there is no file .*part9" if kind == "dangling" else r"part9.* is a pipe, a socket or a device"
    if ending == "csv":
        said = "holds no images"
    with within(30), pytest.raises(InvalidInput, match=said):
        open_dataset(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "dangling"])
def test_labels_that_are_no_file_are_refused(tmp_path, kind):
    SPECIAL[kind](str(tmp_path / "labels.csv"))
    said = "there is no" if kind == "dangling" else "is a pipe, a socket or a device; expected a file"
    with within(30), pytest.raises(InvalidInput, match=said):
        open_dataset(np.eye(3), str(tmp_path / "labels.csv"))


class TestNamesThatAreNotText:
    @pytest.fixture
    def odd(self, photos):
        os.rename(os.fsencode(photos / "a" / "1.png"), os.fsencode(photos / "a") + b"/caf\xe9.png")
        os.rename(os.fsencode(photos / "b"), os.fsencode(photos) + b"/th\xe9")
        return photos

    def test_of_images_are_refused_before_any_work(self, odd, monkeypatch):
        monkeypatch.setattr(PixelEncoder, "_forward", None)
        said = r"7 of 12 rows of photos cannot be used: row 5: the name of a/caf\\xe9\.png is not UTF-8"
        for call in (
            lambda: gmmatch.select("photos", keep=4, encoder="pixels", output="kept.parquet"),
            lambda: gmmatch.suspects("photos", encoder="pixels", output="wrong.csv"),
            lambda: gmmatch.embed("photos", "pixels", output="vectors.npy"),
            lambda: corrupt_folder("photos", "spoilt"),
        ):
            with pytest.raises(InvalidInput, match=said):
                call()

    def test_of_images_can_be_left_out(self, odd):
        kept = gmmatch.select(
            "photos", keep=2, encoder="pixels", on_bad_rows="drop", output="kept.parquet", report="page.html",
            materialize="rows", suspects="wrong.csv", by_class=False,
        )  # fmt: skip
        assert kept.info.bad_rows == 7
        assert "no images in" not in kept.info.hint  # the folder of such a name has some
        assert set(kept.indices.tolist()) <= set(range(5))
        embedded = gmmatch.embed("photos", "pixels", on_bad_rows="drop", output="vectors.npy")
        assert [bad.id for bad in embedded.bad_rows][:2] == ["a/caf\\xe9.png", "th\\xe9/0.png"]

    @pytest.mark.parametrize("ending", ["npy", "npz", "parquet", "arrow", "csv", "jsonl", "safetensors"])
    def test_of_files_do_not_matter(self, tmp_path, monkeypatch, ending):
        monkeypatch.chdir(tmp_path)
        rows = RNG.normal(size=(30, 3))
        plain = f"rows.{ending}"
        if ending == "npy":
            np.save(plain, rows)
        elif ending == "npz":
            np.savez(plain, x=rows)
        elif ending == "csv":
            np.savetxt(plain, rows, delimiter=",", header="a,b,c", comments="")
        elif ending == "jsonl":
            Path(plain).write_text("".join(f'{{"x": {row}}}\n' for row in rows.tolist()))
        elif ending == "parquet":
            pq.write_table(pa.table({"x": rows.tolist()}), plain)
        elif ending == "arrow":
            with pa.ipc.new_file(plain, pa.table({"x": rows.tolist()}).schema) as writer:
                writer.write_table(pa.table({"x": rows.tolist()}))
        else:
            from safetensors.numpy import save_file

            save_file({"x": rows}, plain)
        odd = os.fsdecode(b"caf\xe9." + ending.encode())
        os.rename(plain, odd)
        kept = gmmatch.select(
            odd, keep=5, output=os.fsdecode(b"out\xe9.parquet"), report=os.fsdecode(b"page\xe9.html"),
            materialize=os.fsdecode(b"rows\xe9"), suspects=None,
        )  # fmt: skip
        assert len(kept) == 5
        assert len(gmmatch.load_selection(os.fsdecode(b"out\xe9.parquet"))) == 5


class TestMeasure:
    def test_numbers_of_400_digits_are_bad_values(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        long = "9" * 400
        Path("x.jsonl").write_text(
            "".join(f'{{"a": {long if n == 3 else n}, "b": 1.5}}\n' for n in range(30))
        )
        Path("v.jsonl").write_text("".join(f'{{"v": [-{long if n == 3 else n}, 1.5]}}\n' for n in range(30)))
        Path("y.jsonl").write_text("".join(f'{{"label": {long if n == 3 else n % 2}}}\n' for n in range(30)))
        Path("s.jsonl").write_text("".join(f'{{"score": {long if n == 3 else n % 2}}}\n' for n in range(30)))
        for name in ("x.jsonl", "v.jsonl"):
            with pytest.raises(InvalidInput, match=r"absurdly large values .* in 1 row \(first: 3\)"):
                gmmatch.select(name, keep=3)
            assert gmmatch.select(name, keep=3, on_bad_rows="drop").info.bad_rows == 1
        assert len(np.unique(open_dataset(np.eye(30), "y.jsonl").labels)) == 3
        with pytest.raises(GmmatchError, match="must hold numbers, one score per row"):
            gmmatch.select(np.eye(30), keep=3, method="top-scores", scores="s.jsonl")

    @staticmethod
    def seconds(call):
        started = time.process_time()
        call()
        return time.process_time() - started

    def test_many_columns_take_time_in_proportion(self, tmp_path):
        def opened(n_columns):
            path = tmp_path / f"{n_columns}.csv"
            names, cells = ",".join(f"c{n}" for n in range(n_columns)), ",".join(["1.5"] * n_columns)
            path.write_text(f"{names}\n{cells}\n{cells}\n")
            return self.seconds(lambda: open_dataset(path))

        opened(100)
        assert opened(60_000) < 10 * opened(20_000) + 0.2  # nine times, and 30 s, where it was the square

    def test_names_of_their_own_on_every_line_are_refused_in_no_time(self, tmp_path):
        path = tmp_path / "own.jsonl"
        path.write_text("".join(f'{{"k{n}": 1.5}}\n' for n in range(20_000)))
        with pytest.raises(
            InvalidInput, match=r"all 20000 rows of .* are bad \(row 0: no number in column 'k1'\)"
        ):
            open_dataset(path, on_bad_rows="drop")

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "txt"])
    def test_text_that_takes_more_memory_than_there_is_is_refused(self, tmp_path, ending):
        path = tmp_path / f"x.{ending}"
        line = {"csv": "1,2,3\n", "jsonl": '{"a":1}\n', "txt": "a word\n"}[ending]
        path.write_text("a,b,c\n" * (ending == "csv") + line * 20_000)
        said = r"would take some \d+ MB of memory, because text is read whole; expected at most the 2 MB"
        with pytest.raises(InvalidInput, match=said):
            open_dataset(path, memory=2_000_000)
        if ending == "txt":
            with pytest.raises(InvalidInput, match=said):
                gmmatch.open(path, encoder="wordllama", memory=2_000_000)
        assert len(open_dataset(path, memory=50_000_000)) == 20_000

    def test_more_shards_than_files_may_be_open(self, tmp_path):
        rows = np.arange(1100 * 4, dtype=np.float32).reshape(1100, 4)
        for part in range(1100):
            np.save(tmp_path / f"part{part}.npy", rows[part : part + 1])
        code = (
            "import numpy as np, sys; from gmmatch.data import open_dataset; x = open_dataset(sys.argv[1]);"
            "assert (np.asarray(x.rows)[:, 0] == np.arange(1100) * 4).all(); assert len(x.sizes) == 1100;"
            "import os; assert len(os.listdir('/proc/self/fd')) < 50"
        )
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
        )  # fmt: skip


@pytest.mark.parametrize("order", ["C", "F"])
def test_shards_that_hold_no_file_open_are_the_same_maps(tmp_path, order):
    """Whatever their header takes, and wherever another process maps them by their path."""
    parts = [np.asarray(RNG.normal(size=(5, 3)), order=order) for _ in range(3)]
    for part, rows in enumerate(parts):
        with (tmp_path / f"{part}.npy").open("wb") as file:
            header = np.lib.format.header_data_from_array_1_0(rows)
            text = (repr(header) + " " * (9000 - len(repr(header))) + "\n").encode()
            file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rows.tobytes(order))
    found = open_dataset(tmp_path).rows
    np.testing.assert_array_equal(np.asarray(found), np.concatenate(parts))
    assert all(isinstance(part, np.memmap) and part.offset > 9000 for part in found.parts)
    with pytest.raises(ValueError, match="read-only"):
        found.parts[0][0, 0] = 1
    if order == "C":
        np.testing.assert_array_equal(np.asarray(by_path(found, "x").open()), np.concatenate(parts))


def test_a_column_like_ids_is_pointed_out_wherever_the_table_is(tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    table = pa.table({"number": np.arange(40), "x": RNG.normal(size=40), "y": RNG.normal(size=40)})
    pq.write_table(table, tmp_path / "x.parquet")
    with fsspec.open("memory://notes/x.parquet", "wb") as file:
        file.write((tmp_path / "x.parquet").read_bytes())
    here, there = open_dataset(tmp_path / "x.parquet"), open_dataset("memory://notes/x.parquet")
    assert here.notes == there.notes
    assert "column 'number' counts up row by row" in here.notes[0]


def test_a_budget_too_small_for_the_classes_is_refused_before_encoding(photos, monkeypatch):
    monkeypatch.setattr("gmmatch.inputs._encoded", None)  # what comes after encoding
    with pytest.raises(InvalidInput, match="keep gives 1 rows for 2 classes"):
        gmmatch.select("photos", keep=1, encoder="pixels")
    with pytest.raises(InvalidInput, match="keep gives 1 rows for 2 classes"):
        gmmatch.plan("photos", keep=1, encoder="pixels")


def test_lines_with_names_of_their_own_are_looked_at_as_far_as_the_first_gap(tmp_path):
    """All cells of such a table are the square of its lines, and hours for a file of some megabytes."""
    records, looked = [{f"x{row}": row} for row in range(500)], []
    names = {name: name for record in records for name in record}

    def get(record, name):
        looked.append(name)
        return record.get(name)

    values = (pair for record in records for pair in record.items())
    with pytest.raises(InvalidInput, match="no number in column 'x1'"):
        Records(tmp_path / "x.jsonl", names, records, get, values, {}).rows(list(names), Request())
    assert len(looked) <= 2 * len(records)
