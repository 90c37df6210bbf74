from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gmmatch.errors import InvalidInput, InvalidParameter, UnknownParameter
from gmmatch.lab.training import RECIPES, TrainConfig, load_config
from gmmatch.lab.training.augment import augment


def test_the_papers_recipes_are_the_papers() -> None:
    cifar, tiny = RECIPES["cifar"], RECIPES["tiny-imagenet"]
    assert (cifar.batch_size, cifar.momentum, cifar.weight_decay, cifar.epochs) == (128, 0.9, 5e-4, 200)
    assert (cifar.crop, cifar.flip, cifar.nesterov) == (4, True, False)
    assert (tiny.batch_size, tiny.momentum, tiny.weight_decay, tiny.epochs) == (256, 0.9, 1e-4, 90)
    assert (tiny.crop, tiny.flip, tiny.nesterov) == (0, True, False)
    rates = [cifar.rate_at(epoch * 391, 391) for epoch in (0, 59, 60, 119, 120, 159, 160, 199)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.02, 0.02, 0.004, 0.004, 0.0008, 0.0008])
    rates = [tiny.rate_at(epoch * 391, 391) for epoch in (0, 29, 30, 59, 60, 89)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_step_rates_agree_with_torchs_scheduler() -> None:
    cifar = RECIPES["cifar"]
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=cifar.learning_rate)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, cifar.milestones, 1 / cifar.divide_by)
    for epoch in range(cifar.epochs):
        assert cifar.rate_at(epoch * 10 + 9, 10) == pytest.approx(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()


@pytest.mark.parametrize("name", ["cpu", "cpu-plain", "cpu-deep", "fine-tune"])
def test_one_cycle_rises_to_the_highest_rate_and_falls_towards_zero(name: str) -> None:
    recipe = RECIPES[name]
    rates = np.array([recipe.rate_at(step, 20) for step in range(20 * recipe.epochs)])
    top = int(rates.argmax())
    assert rates[top] == pytest.approx(recipe.learning_rate)
    assert top / len(rates) == pytest.approx(recipe.warmup, abs=0.02)
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) < 0).all()
    assert 0 < rates[-1] < 0.05 * recipe.learning_rate


def test_augmentation_agrees_with_a_loop_over_images() -> None:
    images = np.random.default_rng(0).integers(1, 256, (40, 12, 10, 3)).astype(np.uint8)
    found = augment(torch.from_numpy(images), 3, True, np.random.default_rng(7)).numpy()
    rng = np.random.default_rng(7)
    tops, lefts = rng.integers(0, 7, size=(2, 40, 1))
    mirrored = rng.random(40) < 0.5
    padded = np.pad(images, ((0, 0), (3, 3), (3, 3), (0, 0)))
    for row in range(40):
        top, left = int(tops[row, 0]), int(lefts[row, 0])
        cut = padded[row, top : top + 12, left : left + 10]
        np.testing.assert_array_equal(found[row], cut[:, ::-1] if mirrored[row] else cut)
    assert 10 < mirrored.sum() < 30


def test_no_augmentation_returns_the_batch() -> None:
    images = torch.zeros(2, 8, 8, 1, dtype=torch.uint8)
    assert augment(images, 0, False, np.random.default_rng(0)) is images


def test_flips_alone_move_no_pixel_out_of_its_row() -> None:
    images = torch.arange(2 * 8 * 8).reshape(2, 8, 8, 1)
    found = augment(images, 0, True, np.random.default_rng(0))
    torch.testing.assert_close(found.sort(dim=2).values, images)


def test_configuration_travels_through_files(tmp_path: Path) -> None:
    config = TrainConfig(network="resnet18", recipe="cifar", epochs=100, seeds=3, score_at=7, device="cpu")
    settings = {key: value for key, value in config.as_dict().items() if value is not None}
    as_json, as_toml = tmp_path / "c.json", tmp_path / "c.toml"
    as_json.write_text(json.dumps(config.as_dict()))
    as_toml.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items()))
    assert load_config(as_json) == load_config(as_toml) == config


def test_fewer_epochs_move_the_milestones_in_proportion() -> None:
    config = TrainConfig(recipe="cifar", epochs=100, batch_size=64)
    assert config.resolved().milestones == (30, 60, 80)
    assert config.resolved().batch_size == 64
    assert config.early_epoch() == 10


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("c.toml", "netwrok = 'resnet8'", UnknownParameter, "did you mean 'network'"),
        ("c.toml", "network = ", InvalidInput, "not valid TOML"),
        ("c.json", "[1]", InvalidInput, "one table of settings; got list"),
        ("c.json", '{"seeds": 0}', InvalidParameter, "seeds must be a whole number of at least 1; got 0"),
        ("c.json", '{"recipe": "fast"}', InvalidParameter, "recipe must be 'cifar'"),
        ("c.json", '{"epochs": 5, "score_at": 6}', InvalidParameter, "at most the run's 5 epochs; got 6"),
        ("c.json", '{"device": 0}', InvalidParameter, "device must be text"),
        ("c.yaml", "seeds: 1", InvalidInput, "expected .toml or .json"),
    ],
)
def test_wrong_configurations_are_refused(
    tmp_path: Path, name: str, text: str, error: type[Exception], message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        load_config(tmp_path / name)


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"absent\.toml"):
        load_config(tmp_path / "absent.toml")
