from __future__ import annotations

import numpy as np
import pytest

from gmmatch.encoders import store as module
from gmmatch.encoders.store import VectorStore
from gmmatch.errors import InvalidInput


def made(rows: int, seed: int = 0, dimension: int = 5):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 256, (rows, 16), dtype=np.uint8)
    return keys, rng.normal(size=(rows, dimension)).astype(np.float32)


def test_vectors_come_back_by_their_keys_now_and_later(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_UNSORTED", 50)
    keys, vectors = made(333)
    with VectorStore(tmp_path) as store:
        assert (store.find(keys) == -1).all()
        for start in range(0, 333, 20):
            store.append(keys[start : start + 20], vectors[start : start + 20])
            assert (store.find(keys[: start + 20]) >= 0).all()
            assert (store.find(keys[start + 20 :]) == -1).all()
    order = np.random.default_rng(1).permutation(333)
    with VectorStore(tmp_path) as again:
        assert len(again) == 333
        np.testing.assert_array_equal(again.gather(again.find(keys[order])), vectors[order])


def test_runs_side_by_side_add_to_one_folder(tmp_path):
    (keys, vectors), (other_keys, other_vectors) = made(10), made(7, seed=1)
    with VectorStore(tmp_path) as one, VectorStore(tmp_path) as two:
        one.append(keys[:5], vectors[:5])
        two.append(other_keys, other_vectors)
        one.append(keys[5:], vectors[5:])
        np.testing.assert_array_equal(one.gather(one.find(keys)), vectors)
    both = VectorStore(tmp_path)
    np.testing.assert_array_equal(both.gather(both.find(keys)), vectors)
    np.testing.assert_array_equal(both.gather(both.find(other_keys)), other_vectors)


@pytest.mark.parametrize(
    ("suffix", "lost"), [(".keys", 13), (".vectors", 13), (".keys", 40), (".vectors", 41)]
)
def test_a_cut_file_loses_only_what_was_cut(tmp_path, suffix, lost):
    keys, vectors = made(10)
    with VectorStore(tmp_path) as store:
        store.append(keys, vectors)
    path = next(tmp_path.glob(f"*{suffix}"))
    path.write_bytes(path.read_bytes()[:-lost])
    whole = 10 - -(-lost // 20)
    with VectorStore(tmp_path) as again:
        positions = again.find(keys)
        assert (positions >= 0).tolist() == [True] * whole + [False] * (10 - whole)
        np.testing.assert_array_equal(again.gather(positions[:whole]), vectors[:whole])


def test_a_damaged_vector_is_missing_until_it_is_added_again(tmp_path):
    keys, vectors = made(10)
    with VectorStore(tmp_path) as store:
        store.append(keys, vectors)
    path = next(tmp_path.glob("*.vectors"))
    content = bytearray(path.read_bytes())
    content[4 * 5 * 3 : 4 * 5 * 4] = bytes(20)
    path.write_bytes(content)
    with VectorStore(tmp_path) as again:
        assert np.flatnonzero(again.find(keys) < 0).tolist() == [3]
        again.append(keys[3:4], vectors[3:4])
        np.testing.assert_array_equal(again.gather(again.find(keys)), vectors)
    with VectorStore(tmp_path) as later:
        np.testing.assert_array_equal(later.gather(later.find(keys)), vectors)


def test_vectors_of_another_length_are_refused(tmp_path):
    keys, vectors = made(4)
    with VectorStore(tmp_path) as store:
        store.append(keys, vectors)
        with pytest.raises(InvalidInput, match=r"returned the shape \(4, 3\) for 4 items; expected \(4, 5\)"):
            store.append(keys, vectors[:, :3])
