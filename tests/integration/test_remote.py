"""Rows in an object store: the same bytes as from a disk, fetched once, through outages and mistakes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.data import ForwardRows, open_dataset, remote, spill
from gmmatch.data.formats import arrow
from gmmatch.errors import InvalidInput

pytest.importorskip("moto", reason="moto is not installed")
from tests.cluster.store import Store

N_ROWS, WIDTH = 80_000, 32
IN_THE_READ = [1_000_000, 5_000_000, 9_000_000]  # bytes that were sent, of ten million
COMMAND = "--labels label --keep 10% --seed 3 --resume"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows with labels of which some are wrong: as .npy, and as Parquet with two sizes of row groups."""
    where = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, N_ROWS)
    rows = (rng.normal(size=(N_ROWS, WIDTH)) + 2 * rng.normal(size=(3, WIDTH))[labels]).astype(np.float32)
    labels[::9] = 1
    np.save(where / "rows.npy", rows)
    np.save(where / "labels.npy", labels)
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), WIDTH)
    for size in (1_000, 10_000):
        table = pa.table({"vector": values, "label": labels})
        pq.write_table(
            table,
            where / f"rows-{size}.parquet",
            row_group_size=size,
            use_dictionary=False,
            data_page_size=1 << 14,
        )
    return where


@pytest.fixture(scope="module")
def store(folder):
    server = Store()
    for file in ("rows-1000.parquet", "rows-10000.parquet", "rows.npy", "labels.npy"):
        server.put(folder / file, file)
    yield server
    server.close()


@pytest.fixture
def near(store, monkeypatch):
    """Let this process use the store, and be patient for a short time only."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GMMATCH_PATIENCE", "3")
    monkeypatch.setattr(spill, "BLOCK_BYTES", 1 << 16)  # so that the file is many of them
    monkeypatch.setattr(arrow, "_FAR_BUFFER", 1 << 17)
    remote._file_system.cache_clear()
    remote._fetched.cache_clear()
    yield store
    store.gate.reopen()
    remote._file_system.cache_clear()


@pytest.fixture(scope="module")
def expected(folder, tmp_path_factory):
    """Return the bytes of the selection that is made of the .npy file."""
    output = tmp_path_factory.mktemp("out") / "kept.parquet"
    source = gmmatch.open(folder / "rows.npy", labels=str(folder / "labels.npy"))
    gmmatch.select(source, keep=0.1, random_state=3, output=output)
    return output.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows-1000.parquet", "rows-10000.parquet", "rows.npy"])
def test_the_same_bytes_as_from_a_disk_and_few_of_them_read(name, near, folder, expected, tmp_path):
    column = sum(
        pq.read_metadata(folder / name).row_group(group).column(0).total_compressed_size
        for group in range(pq.read_metadata(folder / name).num_row_groups)
    ) if name.endswith("parquet") else (folder / name).stat().st_size  # fmt: skip
    labels = "label" if name.endswith("parquet") else "s3://rows/labels.npy"
    before = near.gate.sent
    source = open_dataset(f"s3://rows/{name}", labels=labels, mapped=True)
    assert isinstance(source.rows, ForwardRows)
    kept = gmmatch.select(source, keep=0.1, random_state=3, output=tmp_path / "kept.parquet")
    assert (tmp_path / "kept.parquet").read_bytes() == expected
    assert kept.info.reads == 3  # of which the first fetches the rows, and the others find them on the disk
    assert near.gate.sent - before <= 1.1 * column  # with the footer, the labels and what S3 says


def run(store, output, *more, patience=60):
    words = [
        sys.executable,
        "-m",
        "gmmatch",
        "select",
        "s3://rows/rows-1000.parquet",
        *COMMAND.split(),
        "--quiet",
    ]
    return subprocess.Popen(
        [*words, "--quiet", "-o", str(output), "--memory", "20MB", *more], stderr=subprocess.PIPE, text=True,
        env=store.process_environment(GMMATCH_PATIENCE=str(patience)), cwd=os.path.dirname(output),
    )  # fmt: skip


def wait_until_closed(gate, process):
    """Wait for as long as a process runs until it has read so much that the gate closes."""
    while not gate.closed.wait(0.1):
        assert process.poll() is None, process.communicate()[1]


@pytest.mark.slow
@pytest.mark.parametrize("sent", IN_THE_READ)
def test_an_outage_of_five_seconds_is_sat_out(sent, near, expected, tmp_path):
    near.gate.close_after(sent)
    process = run(near, tmp_path / "kept.parquet")
    wait_until_closed(near.gate, process)
    reopen = threading.Timer(5.0, near.gate.reopen)
    reopen.start()
    said = process.communicate()[1]
    reopen.cancel()
    assert process.returncode == 0, said
    assert (tmp_path / "kept.parquet").read_bytes() == expected


@pytest.mark.slow
@pytest.mark.parametrize("sent", IN_THE_READ)
def test_an_outage_for_good_is_one_sentence_and_is_resumed(sent, near, expected, tmp_path):
    near.gate.close_after(sent)
    process = run(near, tmp_path / "kept.parquet", patience=2)
    wait_until_closed(near.gate, process)
    said = process.communicate()[1]
    assert process.returncode == 3, said
    assert said.count("\n") == 1
    assert "s3://rows/rows-1000.parquet cannot be read: no answer for 2 s" in said
    near.gate.reopen()
    again = run(near, tmp_path / "kept.parquet")
    said = again.communicate()[1]
    assert again.returncode == 0, said
    assert (tmp_path / "kept.parquet").read_bytes() == expected


@pytest.mark.slow
def test_outputs_behind_an_address(near, folder, expected):
    options = {"labels": str(folder / "labels.npy"), "keep": 0.1, "random_state": 3}
    gmmatch.select(
        folder / "rows.npy", output="s3://rows/out/kept.parquet", materialize="s3://rows/out/kept", **options
    )
    assert Path(remote.fetched("s3://rows/out/kept.parquet")).read_bytes() == expected
    assert len(open_dataset("s3://rows/out/kept/embeddings.npy")) == N_ROWS // 10
    with pytest.raises(InvalidInput, match=r"cannot write s3://rows/out/kept.parquet: it exists already"):
        gmmatch.select(folder / "rows.npy", output="s3://rows/out/kept.parquet", **options)


@pytest.mark.slow
def test_mistakes_get_a_sentence_at_once(near, monkeypatch):
    for address, words in (
        ("s3://rows/none.parquet", "there is no file of .* at s3://rows/none.parquet"),
        ("s3://nowhere/rows.parquet", "there is no"),
        ("s3://rows/none-*.parquet", "there is no file of"),
    ):
        with pytest.raises(InvalidInput, match=words):
            open_dataset(address)
    rows = open_dataset("s3://rows/rows-1000.parquet", mapped=True).rows

    def vanished(name):
        raise FileNotFoundError(2, "HTTP status 404")

    monkeypatch.setattr(arrow, "open_bytes", vanished)
    with pytest.raises(InvalidInput, match="it is not there, or no longer"):
        rows[5:10]


@pytest.mark.parametrize(("said", "meant"), [
    ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "credentials are missing"),
    ("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation", "another region"),
    ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation", "no such bucket"),
    ("AWS Error NO_SUCH_KEY during GetObject operation", "it is not there, or no longer"),
])  # fmt: skip
def test_what_object_stores_say_is_told_in_words(said, meant, monkeypatch):
    def refuse():
        raise OSError(said)

    with pytest.raises(InvalidInput, match=meant):
        remote.ask("s3://bucket/x.parquet", refuse)


def test_what_is_lost_is_asked_for_again_until_patience_ends(monkeypatch):
    monkeypatch.setenv("GMMATCH_PATIENCE", "0.2")
    monkeypatch.setattr(remote, "_FIRST_PAUSE", 0.01)
    left = [OSError("curlCode: 56"), OSError("curlCode: 7, Couldn't connect")]
    assert remote.ask("s3://x", lambda: 5 if not left else (_ for _ in ()).throw(left.pop())) == 5

    def never():
        raise OSError("curlCode: 7, Couldn't connect to server")

    with pytest.raises(InvalidInput, match=r"s3://x cannot be read: no answer for 0 s .*curlCode: 7"):
        remote.ask("s3://x", never)


def test_addresses_and_paths_are_told_apart(tmp_path):

    assert (
        remote.as_address("s3://bucket/key")
        == remote.as_address(Path("s3://bucket/key"))
        == "s3://bucket/key"
    )
    assert remote.as_address("https://host/x") == "https://host/x"
    assert remote.as_address(tmp_path) is None
    assert remote.as_address("kept.parquet") is None
