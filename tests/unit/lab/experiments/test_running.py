import json

import numpy as np
import pytest

from gmmatch.errors import InvalidParameter
from gmmatch.lab import signals
from gmmatch.lab.experiments import runner
from gmmatch.lab.experiments.benchmarks import open_benchmark
from gmmatch.lab.experiments.grid_cells import commit, groups_of
from gmmatch.lab.experiments.learners import ProbeLearner
from gmmatch.lab.experiments.specs import parse_spec
from gmmatch.lab.experiments.work import Scene, run_group, signal

SPEC = """
title = "A table"
about = "What it shows"
[smoke]
datasets = ["digits"]
scenarios = ["labels-20"]
proxy = "resnet8"
targets = ["resnet8"]
methods = ["random", "el2n", "forgetting", "easy"]
keeps = [20, 100]
seeds = 1
train_rows = 120
test_rows = 60
training = { recipe = "cpu-plain", batch_size = 32, epochs = 1 }
proxy_training = { recipe = "cpu-plain", batch_size = 32, epochs = 1 }
signal_training = { recipe = "cpu-plain", batch_size = 32, epochs = 2, seeds = 3, score_at = 1 }
"""


@pytest.fixture(scope="module")
def data():
    return open_benchmark("digits").head(120, 60)


def group(text=SPEC):
    return groups_of(parse_spec("a", text).grids["smoke"])[0]


def test_el2n_is_the_mean_of_several_networks_and_forgetting_is_of_the_first(tmp_path, data) -> None:
    pytest.importorskip("torch")
    scene = Scene(group(), data, tmp_path, "cpu")
    config = scene.group.grid.signal_training.config("resnet8", 120, "cpu")
    assert config.seeds == 3
    assert config.early_epoch() == 1
    rows, labels = scene.given.inputs, scene.given.labels
    runs = signals.train_runs(rows, labels, config, seed=0)
    wanted = ("el2n", "forgetting")
    expected = signals.score_rows("el2n", rows, labels, config, runs=runs)
    np.testing.assert_allclose(signal(scene, "el2n", wanted), expected, rtol=1e-6)
    first = signals.score_rows("forgetting", rows, labels, config, runs=runs[:1])
    np.testing.assert_array_equal(signal(scene, "forgetting", wanted), first)
    assert not list(tmp_path.rglob("network-*.pt"))


def test_all_rows_are_learned_once_whichever_method_keeps_them(tmp_path, data, monkeypatch) -> None:
    pytest.importorskip("torch")
    from gmmatch.lab.experiments.learners import NetworkLearner

    learned = []
    train = NetworkLearner.accuracy

    def counted(self, picks, *rest):
        learned.append(len(picks))
        return train(self, picks, *rest)

    monkeypatch.setattr(NetworkLearner, "accuracy", counted)
    whole = group()
    cells = list(whole.cells())
    run_group(whole, cells, data, tmp_path, tmp_path / "cache", lambda cell: None, "cpu")
    assert sorted(learned) == [24, 24, 24, 24, 120]
    found = {cell: json.loads(cell.file(tmp_path).read_text())["accuracy"] for cell in cells}
    assert len({accuracy for cell, accuracy in found.items() if cell.keep == 1}) == 1
    # Another table with the same scenario finds it done.
    (tmp_path / "b").mkdir()
    other = groups_of(parse_spec("another", SPEC).grids["smoke"])[0]
    run_group(other, list(other.cells()), data, tmp_path / "b", tmp_path / "cache", lambda cell: None, "cpu")
    assert len(learned) == 5


def test_a_proxy_can_learn_the_damaged_data(tmp_path, data) -> None:
    pytest.importorskip("torch")
    line = 'proxy_data = "{}"\n'
    rows = [
        Scene(
            group(SPEC.replace("seeds = 1\n", "seeds = 1\n" + line.format(kind), 1)), data, tmp_path, "cpu"
        ).rows
        for kind in ("clean", "given")
    ]
    assert (rows[0] != rows[1]).any()
    assert len(list((tmp_path / "proxies").glob("*.pt"))) == 2


@pytest.mark.parametrize("name", ["linear-probe", "linear-probe-converged", "neighbours"])
def test_the_order_of_the_picks_does_not_matter_to_a_probe(name, data) -> None:
    rows = data.inputs.reshape(120, -1).astype(np.float32)
    test = data.test_inputs.reshape(60, -1).astype(np.float32)
    target = ProbeLearner(name, rows, rows, test, data.test_labels)
    picks = np.random.default_rng(0).permutation(120)[:80]
    found = {
        target.accuracy(order, data.labels[order], seed=1) for order in (picks, np.sort(picks), picks[::-1])
    }
    assert len(found) == 1


def test_workers_share_out_the_devices_and_see_their_own_alone(monkeypatch) -> None:
    assert runner.share_devices("cpu:0,cpu:1", None, []) == ["cpu:0", "cpu:1"]
    assert len(runner.share_devices("cpu", 3, [])) == 3
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert runner.claim_device("cuda:1") == "cuda"
    assert runner.os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert runner.claim_device("cuda:1") == "cuda"
    assert runner.os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    assert runner.claim_device("cpu:1") == "cpu"
    for strange in ("gpu", "cuda:x", "cpu,,mps"):
        with pytest.raises(InvalidParameter, match="device must be auto"):
            runner.share_devices(strange, None, [])


def test_every_gpu_has_a_worker(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    grids = parse_spec("a", SPEC).grids["smoke"]
    assert runner.share_devices("auto", None, grids) == ["cuda:0", "cuda:1"]
    assert runner.share_devices("cuda", 4, grids) == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert runner.share_devices("cpu", 2, grids) == ["cpu", "cpu"]


def test_a_part_of_a_grid_has_the_values_that_were_asked_for() -> None:
    (grid,) = parse_spec("a", SPEC.replace("seeds = 1\ntrain", "seeds = 3\ntrain")).grids["smoke"]
    part = grid.narrowed(methods=["easy", "random"], seeds=2, keeps=[0.2], epochs=7)
    assert part.methods == ("random", "easy")
    assert part.seeds == (0, 1)
    assert part.keeps == (0.2,)
    assert part.training.epochs == part.signal_training.epochs == 7
    assert grid.narrowed() == grid
    assert grid.narrowed(datasets=["cifar10"]).size == 0


def test_results_name_the_commit_they_are_of() -> None:
    assert commit().strip()


def test_the_first_result_does_not_stretch_the_time_that_is_left(monkeypatch):
    """It opens the data and loads libraries: 100 s once, then a second each."""
    now, said = iter([0.0, 100.0, *range(101, 150)]), []
    monkeypatch.setattr(runner.time, "perf_counter", lambda: next(now))
    clock = runner._Clock(40, said.append, every=5.0)
    for _ in range(40):
        clock.tick(lambda amount: None)
    assert said[0] == "1 of 40 results done"
    assert said[1] == "6 of 40 results done, little left"
    assert said[-1] == "40 of 40 results done"
