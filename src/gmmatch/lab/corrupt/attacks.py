"""Adversarial attacks on a torch classifier: FGSM (the paper's GS attack) and PGD, in L-infinity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...arrays import Mask
from ...errors import InvalidInput, InvalidParameter, MissingExtra
from ...progress import task
from ...validation import check_positive_int, is_number
from ._draw import as_generator, check_kind, check_share, count_of, draw_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Pixels = npt.NDArray[Any] | Tensor

ATTACK_KINDS: tuple[str, ...] = ("fgsm", "pgd")
_CHANNELS = (1, 3, 4)


def attack(
    model: torch.nn.Module,
    images: Any,
    labels: Any,
    kind: str = "pgd",
    eps: float = 8 / 255,
    step: float = 2 / 255,
    steps: int = 10,
    rng: int | np.random.Generator | None = 0,
    *,
    start: Any = "random",
    share: float = 1.0,
    batch_size: int = 256,
) -> tuple[Any, Mask]:
    """Change images by at most `eps` per value so that `model` gets them wrong.

    Parameters
    ----------
    model
        A torch module that maps a batch of images in [0, 1] to one score per class. Normalisation
        belongs inside it. It is used in evaluation mode, on the device where its parameters are, and
        left as it was.
    images
        A torch tensor in the shape that the model takes, floats in [0, 1]; or a NumPy array, uint8 or
        floats in [0, 1], of shape (images, height, width) or (images, height, width, channels), which
        the model receives with the channels first. Arrays that have the channels first already, or two
        dimensions, are passed on as they are. Never modified.
    labels
        The true class of each image, as the number of the model's score.
    kind
        ``"pgd"`` (Madry et al. 2018) or ``"fgsm"`` (Goodfellow et al. 2015: one step of length `eps` from
        the image itself, whatever `step`, `steps` and `start` say).
    eps
        The largest change of any value, on the scale [0, 1].
    step, steps
        Length and number of PGD's steps.
    rng
        A seed or a Generator: draws the random start, and the rows where `share` is below one.
    start
        Where PGD begins: ``"random"`` (uniform in the ball), ``"image"``, or images like `images`.
    share
        Fraction of the images to attack.
    batch_size
        Images per call of the model; does not change the result beyond rounding.

    Returns
    -------
    attacked
        A copy like `images`: the same kind of array, type, shape and device, within `eps` and [0, 1].
    mask
        True where the image differs from its original.

    Raises
    ------
    MissingExtra
        torch is not installed.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> torch = pytest.importorskip("torch")
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    >>> images = np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8)
    >>> attacked, mask = attack(model, images, [0, 1, 2, 0, 1])
    >>> int(np.abs(attacked.astype(int) - images).max()), mask.all()
    (8, np.True_)
    """
    name = check_kind(kind, ATTACK_KINDS)
    limit = _check_length(eps, "eps")
    length = _check_length(step, "step")
    count = check_positive_int(steps, "steps")
    size = check_positive_int(batch_size, "batch_size")
    if name == "fgsm":
        start, length, count = "image", limit, 1
    source = _Source(images)
    if not isinstance(model, _torch().nn.Module):
        raise InvalidParameter(f"model must be a torch module; got {type(model).__name__}")
    if source.is_bytes and limit * 255 < 1 - 1e-6:
        raise InvalidInput(f"eps must be at least 1/255 to change uint8 images; got {eps:g}")
    generator = as_generator(rng)
    rows = np.sort(draw_rows(len(source), count_of(check_share(share), len(source)), generator))
    classes = _check_labels(labels, len(source))
    beginnings = _check_start(start, source)
    mask = np.zeros(len(source), dtype=bool)
    result = source.copy()
    with task("attacking images", total=len(rows)) as advance, _evaluating(model):
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            x = source.batch(batch, model)
            if beginnings is not None:
                begin = beginnings.batch(batch, model)
            elif start == "random":
                noise = generator.random(x.shape, dtype=np.float32) * 2 - 1
                begin = x + limit * x.new_tensor(noise)
            else:
                begin = x
            found = _ascend(model, x, begin, classes[batch], limit, length, count)
            mask[batch] = source.store(result, batch, found, limit)
            advance(len(batch))
    return result, mask


def pgd(
    model: torch.nn.Module,
    images: Any,
    labels: Any,
    eps: float = 8 / 255,
    step: float = 2 / 255,
    steps: int = 10,
    rng: int | np.random.Generator | None = 0,
    *,
    start: Any = "random",
    batch_size: int = 256,
) -> tuple[Any, Mask]:
    """Attack every image by projected gradient ascent; :func:`attack` describes the parameters.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> torch = pytest.importorskip("torch")
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    >>> attacked, _ = pgd(model, torch.full((2, 1, 8, 8), 0.5), [0, 1], eps=0.1, step=0.05, steps=4)
    >>> f"{(attacked - 0.5).abs().max():.2f}"
    '0.10'
    """
    return attack(model, images, labels, "pgd", eps, step, steps, rng, start=start, batch_size=batch_size)


def fgsm(
    model: torch.nn.Module, images: Any, labels: Any, eps: float = 8 / 255, *, batch_size: int = 256
) -> tuple[Any, Mask]:
    """Attack every image by one step of `eps` along the sign of the gradient; see :func:`attack`.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> torch = pytest.importorskip("torch")
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    >>> attacked, _ = fgsm(model, torch.full((2, 1, 8, 8), 0.5), [0, 1], eps=0.1)
    >>> bool(torch.allclose((attacked - 0.5).abs(), torch.tensor(0.1)))
    True
    """
    return attack(model, images, labels, "fgsm", eps, batch_size=batch_size)


class _Source:
    """Images as the caller holds them, and the way to the model's batches and back."""

    def __init__(self, images: Any, name: str = "images") -> None:
        torch = _torch()
        self._on_numpy = not isinstance(images, torch.Tensor)
        self.values: Pixels = np.asarray(images) if self._on_numpy else images.detach()
        self.is_bytes = str(self.values.dtype).removeprefix("torch.") == "uint8"
        shape = tuple(self.values.shape)
        if len(shape) < 2 or 0 in shape:
            raise InvalidInput(f"{name} must hold at least one image, one per entry; got shape {shape}")
        if not self.is_bytes and str(self.values.dtype).removeprefix("torch.")[:5] not in ("float", "bfloa"):
            raise InvalidInput(
                f"{name} must be uint8, or floats in [0, 1]; got values of type {self.values.dtype}"
            )
        if not self.is_bytes:
            low, high = float(self.values.min()), float(self.values.max())
            if not (low >= 0 and high <= 1):
                raise InvalidInput(
                    f"{name} of floats must lie in [0, 1], with normalisation inside the model;"
                    f" got values from {low:g} to {high:g}"
                )
        self._channels_last = self._on_numpy and _channels_last(shape, name)
        self._no_channels = self._on_numpy and len(shape) == 3

    def __len__(self) -> int:
        return len(self.values)

    def copy(self) -> Pixels:
        """Return the copy to write attacked images into."""
        return np.array(self.values) if isinstance(self.values, np.ndarray) else self.values.clone()

    def batch(self, rows: npt.NDArray[np.int64], model: torch.nn.Module) -> Tensor:
        """Return some images as the model takes them: its device and type, in [0, 1], channels first."""
        torch = _torch()
        x = self._taken(rows)
        if self._channels_last:
            x = x.permute(0, 3, 1, 2)
        elif self._no_channels:
            x = x.unsqueeze(1)
        held = [*model.parameters(), *model.buffers()]
        like = next((tensor for tensor in held if tensor.is_floating_point()), torch.empty(0))
        scaled = x.to(like.device, like.dtype)
        return scaled / 255 if self.is_bytes else scaled

    def store(self, result: Any, rows: npt.NDArray[np.int64], found: Tensor, eps: float) -> Mask:
        """Write attacked images in the caller's form, no farther than `eps`; return which differ."""
        torch = _torch()
        before = self._taken(rows)
        if self._channels_last:
            found = found.permute(0, 2, 3, 1)
        elif self._no_channels:
            found = found.squeeze(1)
        if self.is_bytes:
            # Whole steps inside the ball: rounding to bytes must not leave it.
            reach, top = float(np.floor(eps * 255 + 1e-6)), 255
            held, found = before.to(torch.float32), (found.float() * 255).round().to(before.device)
        else:
            reach, top = eps, 1
            held, found = before, found.to(before.device, before.dtype)
        after = found.clamp(held - reach, held + reach).clamp(0, top).to(before.dtype)
        changed: Mask = (after != before).flatten(1).any(dim=1).cpu().numpy()
        if self._on_numpy:
            result[rows] = after.numpy()
        else:
            result[torch.from_numpy(rows).to(result.device)] = after
        return changed

    def _taken(self, rows: npt.NDArray[np.int64]) -> Tensor:
        torch = _torch()
        if isinstance(self.values, np.ndarray):
            native = self.values[rows].astype(self.values.dtype.newbyteorder("="))
            taken: Tensor = torch.from_numpy(native)
            return taken
        return self.values[torch.from_numpy(rows).to(self.values.device)]


def _ascend(
    model: torch.nn.Module, x: Tensor, begin: Tensor, labels: Tensor, eps: float, step: float, steps: int
) -> Tensor:
    """Follow the sign of the loss's gradient, and return to the ball and to [0, 1] after each step."""
    torch = _torch()
    low, high = (x - eps).clamp(min=0), (x + eps).clamp(max=1)
    labels = labels.to(x.device)
    z = begin.clamp(low, high)
    for _ in range(steps):
        z = z.detach().requires_grad_(True)
        with torch.enable_grad():
            scores = model(z)
            if scores.ndim != 2 or int(labels.max()) >= scores.shape[1]:
                raise InvalidInput(
                    f"labels go up to {int(labels.max())}, but the model returns shape {tuple(scores.shape)};"
                    " expected one score per class for each image"
                )
            loss = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
        if not bool(torch.isfinite(loss)):
            raise InvalidInput("the model's loss is not finite; there is no direction to attack along")
        (gradient,) = torch.autograd.grad(loss, z)
        z = (z.detach() + step * gradient.sign()).clamp(low, high)
    result: Tensor = z.detach()
    return result


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode, and afterwards every part of it back into its own mode."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _channels_last(shape: tuple[int, ...], name: str) -> bool:
    if len(shape) != 4:
        return False
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first == last:
        raise InvalidInput(
            f"the shape {shape} of {name} does not tell which axis holds the channels (1, 3 or 4);"
            " pass a torch tensor in the shape that the model takes"
        )
    return last


def _check_start(start: Any, source: _Source) -> _Source | None:
    if isinstance(start, str):
        if start not in ("random", "image"):
            raise InvalidParameter(f"start must be 'random', 'image' or images; got {start!r}")
        return None
    given = _Source(start, "start")
    if tuple(given.values.shape) != tuple(source.values.shape):
        raise InvalidInput(
            f"start has shape {tuple(given.values.shape)}; expected {tuple(source.values.shape)}, as images"
        )
    return given


def _check_labels(labels: Any, n_images: int) -> Tensor:
    torch = _torch()
    if isinstance(labels, torch.Tensor):
        labels = labels.detach().cpu().numpy()
    array = np.asarray(labels)
    if array.shape != (n_images,) or array.dtype.kind not in "iu" or (n_images and array.min() < 0):
        raise InvalidInput(
            f"labels must be whole numbers of at least 0, one per image ({n_images});"
            f" got shape {array.shape} of type {array.dtype}"
        )
    classes: Tensor = torch.from_numpy(array.astype(np.int64))
    return classes


def _check_length(value: Any, name: str) -> float:
    if not (is_number(value) and 0 < value <= 1):
        raise InvalidParameter(f"{name} must be a number in (0, 1]; got {value!r}")
    return float(value)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "torch") from None
    return torch
