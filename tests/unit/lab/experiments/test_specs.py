from dataclasses import replace

import pytest

from gmmatch.encoders import FAMILIES
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.lab.experiments.benchmarks import BENCHMARKS
from gmmatch.lab.experiments.contenders import CONTENDERS
from gmmatch.lab.experiments.grid_cells import groups_of
from gmmatch.lab.experiments.scenarios import parse_scenario
from gmmatch.lab.experiments.specs import (
    PAPER_METHODS,
    PROBES,
    SCALES,
    Training,
    load_spec,
    parse_spec,
    spec_names,
)
from gmmatch.lab.training import NETWORKS, RECIPES
from gmmatch.selectors import METHODS

GRIDS = [
    pytest.param(grid, id=f"{name}-{scale}-{place}")
    for name in spec_names()
    for scale, grids in load_spec(name).grids.items()
    for place, grid in enumerate(grids)
]

MINIMAL = """
title = "A table"
about = "What it shows"
[smoke]
datasets = ["digits"]
scenarios = ["clean"]
proxy = "pixels"
targets = ["linear-probe"]
keeps = [5, 20]
seeds = 2
"""


@pytest.mark.parametrize("grid", GRIDS)
def test_everything_that_a_spec_names_exists(grid) -> None:
    assert {name.removesuffix("+guard") for name in grid.methods} <= {*METHODS, *CONTENDERS}
    assert set(grid.datasets) <= set(BENCHMARKS)
    assert set(grid.targets) <= {*PROBES, *NETWORKS}
    assert grid.proxy.split(":")[0] in {*NETWORKS, *FAMILIES}
    for training in (grid.training, grid.proxy_training, grid.signal_training):
        assert training.recipe is None or training.recipe in RECIPES
    for scenario in grid.scenarios:
        assert parse_scenario(scenario).name == scenario
        if parse_scenario(scenario).kind == "gross":
            assert set(grid.targets) <= set(PROBES)
    assert all(0 < keep <= 1 for keep in grid.keeps)


@pytest.mark.parametrize("grid", GRIDS)
def test_every_cell_has_a_file_of_its_own(grid, tmp_path) -> None:
    files = [cell.file(tmp_path) for group in groups_of([grid]) for cell in group.cells()]
    assert len(files) == len(set(files)) == grid.size


@pytest.mark.parametrize(
    "name",
    [
        "clean",
        "image-corruption",
        "label-noise",
        "attacks",
        "network-transfer",
        "domain-transfer",
        "linear-probe",
    ],
)
def test_the_tables_of_the_paper_have_all_scales_and_at_paper_scale_all_methods_and_seeds(name) -> None:
    spec = load_spec(name)
    assert spec.scales == SCALES
    for grid in spec.grids["paper"]:
        assert grid.methods == PAPER_METHODS
        assert len(grid.seeds) == 5
        assert grid.signal_training.seeds == 10
        assert grid.train_rows is None


def test_a_fixed_number_of_updates_gives_fewer_epochs_to_more_rows() -> None:
    how = Training(recipe="cpu-plain", batch_size=32, updates=160)
    assert how.config("resnet8", 320, "cpu").resolved().epochs == 16
    assert how.config("resnet8", 3200, "cpu").resolved().epochs == 2
    assert how.config("resnet8", 32000, "cpu").resolved().epochs == 1
    assert Training().config("resnet8", 320, "cifar").resolved() == RECIPES["cifar"]


def test_settings_that_differ_give_another_file(tmp_path) -> None:
    first = parse_spec("a", MINIMAL).grids["smoke"]
    other = parse_spec("a", MINIMAL + "severity = 5\n").grids["smoke"]
    names = [{cell.file(tmp_path) for cell in groups_of(grids)[0].cells()} for grids in (first, other)]
    assert not names[0] & names[1]


def test_another_default_of_a_method_gives_another_file(tmp_path, monkeypatch) -> None:
    cells = list(groups_of(parse_spec("a", MINIMAL).grids["smoke"])[0].cells())
    before = {cell: cell.file(tmp_path) for cell in cells}
    method = METHODS["gm-matching"]
    assert method.defaults()["center"] == "auto"
    monkeypatch.setitem(METHODS, "gm-matching", replace(method, fixed={"center": "huber"}))
    changed = {cell.method for cell, file in before.items() if cell.file(tmp_path) != file}
    assert changed == {"gm-matching", "gm-matching-unguarded"}


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("title = ", InvalidInput, "not valid TOML"),
        (MINIMAL + "keep = [3]\n", InvalidParameter, "keep"),
        (MINIMAL + 'methods = ["gm-machting"]\n', InvalidParameter, "did you mean 'gm-matching'"),
        (MINIMAL.replace('"clean"', '"label-20"'), InvalidParameter, "did you mean 'labels-20'"),
        (MINIMAL + "training = { epoch = 3 }\n", InvalidParameter, "epoch"),
    ],
)
def test_a_spec_with_a_mistake_is_refused(text, error, words) -> None:
    with pytest.raises(error, match=words):
        parse_spec("a", text)


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidParameter, match="did you mean 'label-noise'"):
        load_spec("labelnoise")
