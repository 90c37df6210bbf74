"""FGSM and PGD: against a per-image loop, against another library, and on a trained network."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from gmmatch.corrupt import attack, fgsm, pgd
from gmmatch.errors import InvalidInput, InvalidParameter

torch = pytest.importorskip("torch", reason="torch is not installed")
EPS, STEP = 8 / 255, 2 / 255


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on several threads, above all beside other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Network(torch.nn.Module):
    """Normalisation inside, and a layer whose statistics training mode would change."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers((x - 0.45) / 0.3)


def train(model: Network, images: torch.Tensor, labels: torch.Tensor, epochs: int) -> Network:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    model.zero_grad()
    return model.eval()


@pytest.fixture(scope="module")
def trained() -> tuple[Network, torch.Tensor, torch.Tensor]:
    """A network trained on half of the handwritten digits, and digits it has not seen, at 32 by 32 pixels."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
    images = torch.nn.functional.interpolate(images, size=(32, 32), mode="bilinear")
    labels = torch.tensor(digits.target)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Network(
            torch.nn.Flatten(),
            torch.nn.Linear(1024, 128),
            torch.nn.BatchNorm1d(128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, 10),
        )
        train(model, images[:900], labels[:900], epochs=10)
    return model, images[900:1300], labels[900:1300]


@pytest.fixture
def convolutional() -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Network(torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(144, 5))


def accuracy(model: Network, images: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return 100 * (model(images).argmax(dim=1) == labels).float().mean().item()


def one_image_at_a_time(model, images, labels, start, eps, step, steps):
    """The definition of the attack in its plainest form: no batches, projection by NumPy."""
    attacked = []
    for image, label, begin in zip(images, labels, start, strict=True):
        clean, z = image.numpy().astype(np.float64), begin.numpy().astype(np.float64)
        for _ in range(steps):
            tensor = torch.tensor(z, dtype=torch.float32, requires_grad=True)
            scores = model(tensor[None])[0]
            (torch.logsumexp(scores, dim=0) - scores[label]).backward()
            z = z + step * np.sign(tensor.grad.numpy())
            z = np.clip(clean + np.clip(z - clean, -eps, eps), 0, 1)
        attacked.append(z)
    model.zero_grad()
    return torch.tensor(np.stack(attacked), dtype=torch.float32)


def in_the_ball(images: torch.Tensor, eps: float, seed: int = 0) -> torch.Tensor:
    noise = np.random.default_rng(seed).uniform(-eps, eps, tuple(images.shape))
    return (images + torch.tensor(noise, dtype=torch.float32)).clamp(0, 1)


def check_fall(model: Network, images: torch.Tensor, labels: torch.Tensor, eps: float) -> None:
    clean = accuracy(model, images, labels)
    once, _ = fgsm(model, images, labels, eps=eps)
    often, _ = pgd(model, images, labels, eps=eps, step=eps / 4)
    for attacked in (once, often):
        assert (attacked - images).abs().max() <= eps + 1e-6
        assert attacked.min() >= 0
        assert attacked.max() <= 1
    assert accuracy(model, once, labels) <= clean - 30
    assert accuracy(model, often, labels) <= accuracy(model, once, labels)


def test_attacks_lower_the_accuracy_by_30_points_and_pgd_at_least_as_much(trained):
    model, images, labels = trained
    assert accuracy(model, images, labels) > 90
    check_fall(model, images, labels, eps=16 / 255)


@pytest.mark.data
def test_attacks_of_the_papers_strength_break_a_network_for_photographs():
    folder = os.environ.get("GMMATCH_DATA")
    if not folder or not Path(folder, "cifar10.npz").exists():
        pytest.skip("GMMATCH_DATA does not name a folder with cifar10.npz")
    with np.load(Path(folder, "cifar10.npz"), allow_pickle=False) as data:
        jpeg, offsets, labels = data["train_jpeg"], data["train_offsets"], data["train_labels"][:3000]
    files = [jpeg[offsets[row] : offsets[row + 1]].tobytes() for row in range(3000)]
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(file))) for file in files])
    images = torch.tensor(pixels / 255, dtype=torch.float32).permute(0, 3, 1, 2)
    classes = torch.tensor(labels.astype(np.int64))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Network(
            torch.nn.Conv2d(3, 32, 4, stride=4),
            torch.nn.BatchNorm2d(32),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(1024, 10),
        )
        train(model, images[:2600], classes[:2600], epochs=5)
    check_fall(model, images[2600:], classes[2600:], eps=EPS)


@pytest.mark.parametrize("steps", [1, 10])
def test_pgd_is_the_definition_applied_to_each_image(trained, steps):
    model, images, labels = trained
    images, labels = images[:20], labels[:20]
    start = in_the_ball(images, EPS)
    ours, mask = pgd(model, images, labels, EPS, STEP, steps, start=start, batch_size=7)
    expected = one_image_at_a_time(model, images, labels, start, EPS, STEP, steps)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
    assert mask.all()


def test_fgsm_is_one_full_step_from_the_image(trained):
    model, images, labels = trained
    ours, _ = fgsm(model, images[:20], labels[:20])
    expected = one_image_at_a_time(model, images[:20], labels[:20], images[:20], EPS, EPS, 1)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore")
def test_the_adversarial_robustness_toolbox_finds_the_same_perturbations(trained, monkeypatch):
    evasion = pytest.importorskip(
        "art.attacks.evasion", reason="adversarial-robustness-toolbox is not installed"
    )
    from art.attacks.evasion.projected_gradient_descent import projected_gradient_descent_pytorch as theirs
    from art.estimators.classification import PyTorchClassifier

    model, images, labels = trained
    images, labels = images[:40], labels[:40]
    classifier = PyTorchClassifier(
        model,
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=(1, 32, 32),
        nb_classes=10,
        clip_values=(0, 1),
        device_type="cpu",
    )
    expected = evasion.FastGradientMethod(classifier, eps=EPS).generate(images.numpy(), labels.numpy())
    np.testing.assert_allclose(fgsm(model, images, labels)[0].numpy(), expected, atol=1e-5)

    start = in_the_ball(images, EPS)
    drawn = (start - images).numpy()
    monkeypatch.setattr(theirs, "random_sphere", lambda *_: drawn)
    toolbox = evasion.ProjectedGradientDescentPyTorch(
        classifier, eps=EPS, eps_step=STEP, max_iter=10, num_random_init=1, batch_size=40, verbose=False
    )
    expected = toolbox.generate(images.numpy(), labels.numpy())
    ours, _ = pgd(model, images, labels, start=start)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)


def test_the_random_start_fills_the_ball_and_follows_the_seed(trained):
    model, images, labels = trained
    images, labels = torch.full_like(images[:30], 0.5), labels[:30]
    tiny = {"eps": 0.1, "step": 1e-9, "steps": 1}
    begun = pgd(model, images, labels, **tiny)[0] - 0.5
    assert begun.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.02)
    torch.testing.assert_close(pgd(model, images, labels, **tiny, batch_size=7)[0] - 0.5, begun)
    assert (pgd(model, images, labels, **tiny, rng=1)[0] - 0.5 - begun).abs().max() > 0.1


def test_the_model_is_left_as_it_was(trained):
    model, images, labels = trained
    model.zero_grad(set_to_none=True)
    model.train()
    model.layers[1].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        pgd(model, images[:10], labels[:10])
    assert model.training
    assert not model.layers[1].training
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name])
    model.eval()


def test_arrays_and_tensors_of_all_layouts_agree(convolutional):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    labels = rng.integers(0, 5, 12)
    before = pixels.copy()
    attacked, mask = attack(convolutional, pixels, labels)
    change = np.abs(attacked.astype(int) - pixels)
    assert attacked.dtype == np.uint8
    assert mask.all()
    assert change.max() == 8
    np.testing.assert_array_equal(pixels, before)

    floats = (pixels / 255).astype(np.float32)
    first = np.ascontiguousarray(floats.transpose(0, 3, 1, 2))
    as_tensor, _ = attack(convolutional, torch.tensor(first), torch.tensor(labels))
    np.testing.assert_allclose(attack(convolutional, first, labels)[0], as_tensor.numpy(), atol=1e-6)
    last, _ = attack(convolutional, floats, labels)
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), as_tensor.numpy(), atol=1e-6)
    np.testing.assert_allclose(attacked / 255, last, atol=0.51 / 255)


def test_bytes_stay_inside_a_ball_that_is_not_whole(convolutional):
    pixels = np.full((4, 8, 8, 3), 128, dtype=np.uint8)
    attacked, _ = attack(convolutional, pixels, [0, 1, 2, 3], eps=2.7 / 255)
    assert np.abs(attacked.astype(int) - 128).max() == 2
    with pytest.raises(InvalidInput, match="at least 1/255"):
        attack(convolutional, pixels, [0, 1, 2, 3], eps=0.5 / 255)


def test_only_the_share_is_attacked(convolutional):
    images = np.random.default_rng(0).random((21, 8, 8, 3))
    attacked, mask = attack(convolutional, images, np.zeros(21, int), share=0.3)
    assert mask.sum() == 6
    np.testing.assert_array_equal((attacked != images).any(axis=(1, 2, 3)), mask)
    assert attacked.dtype == np.float64


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"images": np.full((2, 8, 8, 3), 1.5)}, InvalidInput, "normalisation inside the model"),
        ({"images": np.zeros((2, 3, 8, 3))}, InvalidInput, "does not tell which axis"),
        ({"images": np.zeros((2, 8, 8, 3), int)}, InvalidInput, "int64"),
        ({"images": np.zeros((0, 8, 8, 3))}, InvalidInput, "at least one image"),
        ({"labels": [0]}, InvalidInput, r"one per image \(2\)"),
        ({"labels": [0, 9]}, InvalidInput, "labels go up to 9"),
        ({"labels": [0, -1]}, InvalidInput, "at least 0"),
        ({"kind": "bim"}, InvalidParameter, "'fgsm' or 'pgd'"),
        ({"eps": 0}, InvalidParameter, "eps"),
        ({"step": -1}, InvalidParameter, "step"),
        ({"steps": 0}, InvalidParameter, "steps"),
        ({"start": "zero"}, InvalidParameter, "start"),
        ({"start": np.zeros((1, 8, 8, 3))}, InvalidInput, "as images"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(convolutional, change, error, message):
    given = {"images": np.zeros((2, 8, 8, 3)), "labels": [0, 1], **change}
    with pytest.raises(error, match=message):
        attack(convolutional, given.pop("images"), given.pop("labels"), **given)
