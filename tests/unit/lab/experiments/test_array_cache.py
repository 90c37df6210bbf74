"""What experiments keep between runs is what was written, or is made again."""

import json

import numpy as np
import pytest

from gmmatch.lab.experiments.array_cache import cached_array, cached_arrays, read_arrays
from gmmatch.lab.experiments.grid_cells import read_records

MADE = {"order": np.arange(500), "seconds": 1.5, "params": json.dumps({"keep": 0.1})}


def check(found):
    assert sorted(found) == sorted(MADE)
    for name, value in MADE.items():
        np.testing.assert_array_equal(found[name], value)


def test_what_is_kept_is_not_made_again(tmp_path):
    file = tmp_path / "picks" / "kept.npz"
    check(cached_arrays(file, lambda: MADE, list(MADE)))
    check(cached_arrays(file, lambda: pytest.fail("it was kept"), list(MADE)))
    assert cached_array(tmp_path / "one.npz", lambda: np.ones(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("number", range(60))
def test_what_is_damaged_is_made_again(tmp_path, number):
    file = tmp_path / "kept.npz"
    cached_arrays(file, lambda: MADE, list(MADE))
    whole, rng = file.read_bytes(), np.random.default_rng(number)
    damaged = bytearray(whole)
    if number == 0:
        damaged = bytearray(len(whole))
    elif number == 1:
        damaged = bytearray(b"null")
    elif number < 20:
        damaged = damaged[: int(rng.integers(len(whole)))]
    else:
        for at in rng.integers(0, len(whole), 12):
            damaged[at] ^= 1 << int(rng.integers(8))
    file.write_bytes(damaged)
    check(
        cached_arrays(file, lambda: MADE, list(MADE))
    )  # bits of the archive's dates, which nobody reads, may stay wrong
    assert read_arrays(file, list(MADE)) is not None


def test_a_result_that_is_no_record_is_missing(tmp_path):
    class Cell:
        def file(self, folder):
            return folder / "cell.json"

    for content in ("null", "[" * 100_000, "{"):
        (tmp_path / "cell.json").write_text(content)
        assert read_records([Cell()], tmp_path) == []
