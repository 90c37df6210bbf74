from __future__ import annotations

import contextlib
import io
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch
from gmmatch.checkpoints import FileCheckpoint
from gmmatch.data import open_dataset
from gmmatch.data.pickles import read_pickle
from gmmatch.errors import InvalidInput

BATCH = {
    b"data": np.arange(12, dtype=np.uint8).reshape(2, 6),
    b"labels": [3, 70_000, -1, 2**40],
    b"filenames": [b"a.png", b"b.png"],
    "nested": {"floats": (1.5, None, True), "wide": np.arange(3, dtype=">i4")},
    "column-major": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}

# What Python 2 wrote for {'data': array([[1, 2]], dtype=uint8), 'labels': [6]}.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04"
    b"K\x00\x85U\x01b\x87Rq\x05(K\x01K\x01K\x02\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07"
    b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x01\x02tbU\x06labelsq\x08]q\tK\x06au."
)


def read(content: bytes):
    return read_pickle(io.BytesIO(content))


def same(left, right) -> bool:
    if isinstance(right, np.ndarray):
        return left.dtype.newbyteorder("=") == right.dtype.newbyteorder("=") and np.array_equal(left, right)
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in right)
    return left == right


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_it_reads_what_pickle_reads(protocol):
    content = pickle.dumps(BATCH, protocol=protocol)
    assert same(read(content), pickle.loads(content))


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol(protocol):
    data = {"labels": [1, 2.5, None, True, (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ()], "name": "gr\xfcn"}
    assert read(pickle.dumps(data, protocol=protocol)) == data


def test_a_batch_written_by_python_2():
    batch = read(PYTHON_2)
    assert batch["labels"] == [6]
    np.testing.assert_array_equal(batch["data"], np.array([[1, 2]], np.uint8))


class Attack:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, protocol):
    mark = tmp_path / "ran"
    attacks = [
        Attack(os.system, f"touch {mark}"),
        Attack(eval, f"open({str(mark)!r}, 'w')"),
        Attack(subprocess.Popen, ["touch", str(mark)]),
        Attack(np.memmap, str(mark), np.uint8, "w+", 0, (4,)),
    ]
    for attack in attacks:
        for content in (attack, {"data": attack}, [BATCH, attack]):
            with pytest.raises(InvalidInput, match="which is not data and is not run"):
                read(pickle.dumps(content, protocol=protocol))
    assert not mark.exists()


def test_pickles_in_arrays_archives_and_networks_are_not_run(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    attack = np.array([Attack(os.system, "touch ran"), None], dtype=object)
    np.save("rows.npy", attack, allow_pickle=True)
    np.savez("rows.npz", rows=attack)
    torch.save({"weight": Attack(os.system, "touch ran")}, "network.pt")
    np.save("plain.npy", np.zeros((4, 8, 8, 3), np.uint8))
    np.save("four.npy", np.eye(4))
    for name in ("rows.npy", "rows.npz"):
        with pytest.raises(InvalidInput):
            open_dataset(name)
        with pytest.raises(InvalidInput):
            open_dataset("four.npy", name)
        with pytest.raises(InvalidInput):
            FileCheckpoint(tmp_path / name, "rows", {}, resume=True).load()
    with pytest.raises(InvalidInput):
        gmmatch.embed("plain.npy", encoder="torch:network.pt")
    assert not Path("ran").exists()
    np.load("rows.npy", allow_pickle=True)  # the attack is one
    assert Path("ran").exists()


def test_arrays_of_objects_are_refused():
    with pytest.raises(InvalidInput, match="Python objects"):
        read(pickle.dumps(np.array([{}], dtype=object), protocol=2))


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02", b"\x80\x02R.", b"\x80\x02t.", b"\x80\x02h\x05.", b".", b"S'\\u'\n."]
)
def test_damaged_pickles_are_refused(content):
    with pytest.raises(InvalidInput):
        read(content)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_gets_past_the_one_error(data):
    content = bytearray(PYTHON_2)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidInput):
        read(bytes(content))
