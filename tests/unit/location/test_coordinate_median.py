"""The coordinate-wise median against NumPy's."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from gmmatch.location import coordinate_median
from gmmatch.location.centers import find_center, find_centers


@pytest.mark.parametrize("n_rows", [1, 2, 7, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_median_of_each_feature(n_rows: int, dtype: type) -> None:
    rows = np.random.default_rng(n_rows).normal(size=(n_rows, 33)).astype(dtype)
    expected = np.median(rows.astype(np.float64), axis=0)
    np.testing.assert_array_equal(coordinate_median(rows), expected)


def test_neither_chunks_nor_the_way_rows_are_held_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 20)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    expected = coordinate_median(rows)
    # The package's attribute of that name is the function, not its module.
    module = import_module("gmmatch.location.centers")
    monkeypatch.setattr(module, "_CHUNK_BYTES", 3 * rows[:, 0].nbytes)
    for form in (rows, np.load(tmp_path / "rows.npy", mmap_mode="r"), np.asfortranarray(rows)):
        np.testing.assert_array_equal(coordinate_median(form), expected)


def test_the_rows_are_left_as_they_are() -> None:
    rows = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 1)))
    before = rows.copy()
    coordinate_median(rows)
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("center", ["mean", "geometric-median", "coordinate-median", np.array([1.0, 2.0])])
def test_centers_of_all_groups_are_those_of_each(center: object) -> None:
    rng = np.random.default_rng(3)
    rows, codes = rng.normal(size=(400, 2)), rng.integers(3, size=400)
    found = find_centers(center, rows, codes, ["a", "b", "c"])
    assert len(found) == 3
    for code, (point, epsilon) in enumerate(found):
        alone, certified = find_center(center, rows[codes == code])
        np.testing.assert_allclose(point, alone, atol=1e-4 if certified else 1e-12)
        assert (epsilon is None) == (certified is None)
