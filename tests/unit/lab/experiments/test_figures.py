import numpy as np
import pytest
from PIL import Image

from gmmatch.errors import InvalidInput
from gmmatch.lab.experiments.figures import draw_curves, write_curves

LEVELS = {"random": 50.0, "hard": 10.0, "moderate": 58.0, "mine": 55.0, "gm-matching": 62.0}


def record(scenario, method, keep, seed, accuracy, target="linear-probe"):
    return {
        "dataset": "CIFAR-10",
        "scenario": scenario,
        "proxy": "encoder",
        "target": target,
        "method": method,
        "keep": keep,
        "seed": seed,
        "accuracy": accuracy,
    }


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    return [
        record(scenario, method, keep, seed, level + 20 * keep + rng.normal())
        for scenario in ("clean", "labels-20", "pgd")
        for method, level in LEVELS.items()
        for keep in (0.02, 0.1, 0.3)
        for seed in range(3)
    ]


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_each_scenario_has_a_panel_with_the_means_of_every_method(records):
    figure = draw_curves(records)
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["No corruption", "20 % of the labels wrong", "PGD attack"]
    for axes, scenario in zip(panels, ("clean", "labels-20", "pgd"), strict=True):
        assert set(lines(axes)) == set(LEVELS)
        for method, line in lines(axes).items():
            wanted = [
                np.mean(
                    [
                        r["accuracy"]
                        for r in records
                        if (r["scenario"], r["method"], r["keep"]) == (scenario, method, keep)
                    ]
                )
                for keep in (0.02, 0.1, 0.3)
            ]
            np.testing.assert_allclose(line.get_xdata(), [2, 10, 30])
            np.testing.assert_allclose(line.get_ydata(), wanted)


def test_gm_matching_is_the_widest_line_and_no_two_methods_look_the_same(records):
    drawn = lines(draw_curves(records).axes[0])
    widths = {name: line.get_linewidth() for name, line in drawn.items()}
    assert max(widths, key=widths.get) == "gm-matching"
    looks = {(line.get_color(), line.get_marker()) for line in drawn.values()}
    assert len(looks) == len(drawn)


def test_a_line_far_below_is_named_instead_of_squeezing_the_others(records):
    axes = draw_curves(records).axes[0]
    assert axes.get_ylim()[0] > 20
    assert any("hard" in text.get_text() for text in axes.texts)


def test_missing_cells_and_several_settings_are_drawn():
    found = [record("clean", "gm-matching", 0.1, 0, 60.0), record("clean", "random", 0.3, 0, 50.0)]
    found += [record("clean", "gm-matching", 0.1, 0, 40.0, target="vgg16")]
    first, second = draw_curves(found).axes[:2]
    assert list(lines(first)["gm-matching"].get_xdata()) == [10]
    assert list(lines(first)["random"].get_xdata()) == [30]
    assert "encoder → vgg16" in second.get_title(loc="left")


def test_the_file_is_a_picture_with_our_colour_in_it(records, tmp_path):
    write_curves(records, tmp_path / "deep" / "curves.png")
    with Image.open(tmp_path / "deep" / "curves.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert pixels.shape[0] > 300
    ours = np.abs(pixels - [0xD5, 0x5E, 0x00]).sum(axis=2) < 30
    assert ours.sum() > 500


def test_no_records_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="at least one record"):
        write_curves([], tmp_path / "curves.png")
