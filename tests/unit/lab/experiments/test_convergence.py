import csv
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

import gmmatch
from gmmatch.errors import InvalidParameter
from gmmatch.lab.experiments.convergence import (
    EXPECTED,
    GUARDED,
    MATCHING,
    RATES,
    SIZES,
    convergence_rows,
    expected_distance,
    prefix_distances,
    run_convergence,
    write_convergence,
)

# One process, so that the figure is made once.
pytestmark = pytest.mark.xdist_group("convergence")


@pytest.fixture(scope="module")
def curves():
    return {(curve.rate, curve.method): curve for curve in run_convergence("smoke")}


def test_matching_the_median_has_slope_minus_one_and_random_minus_one_half(curves):
    assert curves[0.0, "gm-matching, residual step"].slope == pytest.approx(-1.0, abs=0.15)
    assert curves[0.0, "gm-matching-paper, projection step"].slope == pytest.approx(-1.0, abs=0.2)
    assert curves[0.0, "random"].slope == pytest.approx(-0.5, abs=0.1)


def test_random_is_what_the_closed_form_expects(curves):
    for rate in RATES:
        measured, expected = curves[rate, "random"], curves[rate, EXPECTED]
        np.testing.assert_allclose(measured.to_median, expected.to_median, rtol=0.25)


def test_on_corrupted_rows_random_and_herding_level_off_and_matching_does_not(curves):
    for rate in RATES[1:]:
        for name in ("random", "herding"):
            assert curves[rate, name].slope > -0.2
        residual = curves[rate, "gm-matching, residual step"]
        assert residual.to_median[-1] < curves[rate, "random"].to_median[-1] / 50


def test_with_the_guard_the_picks_reach_the_clean_mean_through_corruption(curves):
    for rate in RATES[1:]:
        guarded = curves[rate, GUARDED].to_clean_mean[-1]
        assert guarded < curves[rate, "gm-matching, residual step"].to_clean_mean[-1] / 10


def test_the_expectation_is_the_mean_over_all_subsets():
    rng = np.random.default_rng(0)
    rows, point = rng.normal(size=(7, 3)), rng.normal(size=3)
    for k in (1, 3, 7):
        every = [np.sum((rows[list(some)].mean(0) - point) ** 2) for some in combinations(range(7), k)]
        found = expected_distance(rows, point, np.array([k]))
        assert found[0] == pytest.approx(np.sqrt(np.mean(every)))


@pytest.mark.parametrize("method", MATCHING)
def test_a_prefix_is_what_a_smaller_budget_picks(method):
    rows, _ = convergence_rows(0.2, SIZES["smoke"], seed=1)
    center = gmmatch.geometric_median(rows).point
    name, params = MATCHING[method]
    many = gmmatch.select(rows, keep=60, method=name, random_state=3, **params)
    few = gmmatch.select(rows, keep=25, method=name, random_state=3, **params)
    found = prefix_distances(rows[many.indices], center, np.array([25, 60]))
    assert found[0] == pytest.approx(np.linalg.norm(rows[few.indices].mean(0) - center))
    if name == "gm-matching-paper":
        assert found[1] == pytest.approx(many.objective)


def test_the_files_say_what_was_measured(tmp_path, curves):
    picture, report, figures = write_convergence(tmp_path, "smoke")
    with figures.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        curve = curves[float(row["rate"]), row["method"]]
        at = list(curve.picks).index(int(row["picks"]))
        assert float(row["to_median"]) == pytest.approx(curve.to_median[at], rel=1e-4)
    lines = [line for line in report.read_text().splitlines() if line.startswith("| herding |")]
    slopes = [f"{curves[rate, 'herding'].slope:.2f}" for rate in RATES]
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == ["herding", *slopes]
    with Image.open(picture) as drawn:
        assert len(drawn.getcolors()) > 20


def test_an_unknown_scale_is_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="scale"):
        write_convergence(tmp_path, "huge")
