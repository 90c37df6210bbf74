import csv
import re

import numpy as np
import pytest
from PIL import Image

import gmmatch
from gmmatch.errors import InvalidParameter
from gmmatch.lab.experiments.toy import (
    ADVERSARIES,
    KEEP,
    METHODS,
    RATES,
    SHOWN,
    draw_toy,
    toy_points,
    write_toy,
)

# One process, so that the figure is made once.
pytestmark = pytest.mark.xdist_group("toy")

ROWS = 300  # of the smoke scale


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_toy(tmp_path_factory.mktemp("toy"), "smoke")


def picture_table(caption):
    """Read the table under "The picture in figures"."""
    part = caption.read_text().split("## The picture in figures")[1].split("\n##")[0]
    lines = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    head = [cell.strip() for cell in lines[0]]
    return {
        line[0].strip(): dict(zip(head, (cell.strip() for cell in line), strict=True)) for line in lines[2:]
    }


def test_the_captions_figures_are_those_of_the_picks(files):
    shown = picture_table(files[1])
    assert list(shown) == list(METHODS)
    for rate in RATES:
        points, corrupted = toy_points(rate, ROWS, 0, ADVERSARIES[SHOWN])
        clean = points[~corrupted]
        radius = np.linalg.norm(clean - clean.mean(0)) / np.sqrt(len(clean))
        for label, (name, params) in METHODS.items():
            kept = gmmatch.select(
                points, keep=KEEP, labels=np.zeros(len(points), int), method=name, **params
            ).indices
            assert len(kept) == ROWS * KEEP
            distance = np.linalg.norm(points[kept].mean(0) - clean.mean(0)) / radius
            spread = np.sqrt(points[kept].var(axis=0).sum()) / radius
            assert shown[label][f"distance, {rate:.0%}"] == f"{distance:.3f}"
            assert shown[label][f"spread, {rate:.0%}"] == f"{spread:.3f}"
            if rate:
                assert shown[label][f"corrupted, {rate:.0%}"] == f"{100 * corrupted[kept].mean():.1f} %"


def test_the_caption_names_exactly_the_methods_that_keep_no_corrupted_point(files):
    shown = picture_table(files[1])
    for rate in RATES[1:]:
        sentence = re.search(
            rf"With {rate:.0%} corrupted, no corrupted point is kept by: (.*?)\.", files[1].read_text()
        )
        free = [name for name, row in shown.items() if row[f"corrupted, {rate:.0%}"] == "0.0 %"]
        assert sentence.group(1) == ("; ".join(free) or "none of them")


def test_the_csv_has_every_method_rate_and_adversary(files):
    with files[2].open() as file:
        rows = list(csv.DictReader(file))
    cases = {(row["adversary"], float(row["rate"]), row["method"]) for row in rows}
    assert len(rows) == len(cases) == len(ADVERSARIES) * len(RATES) * len(METHODS)
    assert all(float(row["corrupted_picks"]) == 0 for row in rows if float(row["rate"]) == 0)


def test_the_picture_is_not_empty_and_small_enough_to_commit(files):
    with Image.open(files[0]) as picture:
        assert min(picture.size) > 500
        assert len(picture.getcolors()) > 20
    assert files[0].stat().st_size < 300_000


def test_methods_stand_below_each_other_and_rates_side_by_side_with_their_picks():
    figure = draw_toy(ROWS)
    grid = np.array(figure.axes).reshape(len(METHODS), len(RATES))
    assert [axes.get_title() for axes in grid[0]] == ["0% corrupted", "20% corrupted", "45% corrupted"]
    assert [axes.get_ylabel().replace("\n", " ") for axes in grid[:, 0]] == list(METHODS)
    for column, rate in zip(grid.T, RATES, strict=True):
        points, corrupted = toy_points(rate, ROWS, 0, ADVERSARIES[SHOWN])
        for axes, (name, params) in zip(column, METHODS.values(), strict=True):
            kept = gmmatch.select(points, keep=KEEP, labels=np.zeros(ROWS, int), method=name, **params).mask()
            drawn = [np.asarray(dots.get_offsets()) for dots in axes.collections]
            wanted = [~corrupted, corrupted, kept & ~corrupted, kept & corrupted]
            for dots, mask in zip(drawn, wanted, strict=True):
                np.testing.assert_array_equal(dots.reshape(-1, 2), points[mask])


def test_the_adversary_places_the_share_it_is_given_where_it_is_told():
    points, corrupted = toy_points(0.45, 4000, 1, ADVERSARIES["tight clump"])
    assert corrupted.sum() == 1800
    clean, wrong = points[~corrupted], points[corrupted]
    radius = np.sqrt(clean.var(axis=0).sum())
    assert np.linalg.norm(wrong.mean(0) - clean.mean(0)) / radius == pytest.approx(5, rel=0.05)
    assert np.sqrt(wrong.var(axis=0).sum()) / radius == pytest.approx(0.1, rel=0.05)


def test_an_unknown_scale_is_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="scale"):
        write_toy(tmp_path, "huge")
