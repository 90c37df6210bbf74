"""Running a network without training it: logits, features, accuracy.

The network is moved to the device that is asked for, and stays there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from ...encoders.torch_modules import resolve_device as resolve_device
from ...errors import InvalidInput
from ...progress import task
from ...validation import check_positive_int
from .images import Inputs, as_codes, as_inputs
from .networks import Network

BATCH = 512


@dataclass(frozen=True)
class Evaluation:
    """How well a network does on labelled images: share of right answers, mean cross-entropy, rows."""

    accuracy: float
    loss: float
    rows: int


def check_fits(network: Network, inputs: Inputs) -> None:
    """Refuse what the network does not take: rows for images, or another number of channels."""
    if inputs.ndim != network.input_dimensions or inputs.shape[-1] != network.channels:
        takes, found = (
            f"rows of {channels} numbers" if dimensions == 2 else f"images with {channels} channel(s)"
            for dimensions, channels in (
                (network.input_dimensions, network.channels),
                (inputs.ndim, inputs.shape[-1]),
            )
        )
        raise InvalidInput(f"the network takes {takes}; got {found}")


def to_pixels(images: Tensor) -> Tensor:
    """Turn uint8 (rows, height, width, channels) into float32 in [0, 1], channels first.

    The memory stays as it is, which is the channels-last layout that convolutions are fastest on.
    Rows of numbers have no pixels and are returned as they are.
    """
    if images.dim() == 2:
        return images
    return images.permute(0, 3, 1, 2).float().div_(255)


def predict(
    network: Network, images: Any, *, batch_size: int = BATCH, device: str | torch.device = "auto"
) -> npt.NDArray[np.float32]:
    """Return the logits of images, shape (rows, classes)."""
    return _apply(network, network, images, batch_size, device)


def features(
    network: Network, images: Any, *, batch_size: int = BATCH, device: str | torch.device = "auto"
) -> npt.NDArray[np.float32]:
    """Return the penultimate activations of images, shape (rows, feature_size).

    >>> from gmmatch.lab.training import build_network
    >>> pictures = np.zeros((3, 28, 28), dtype=np.uint8)
    >>> features(build_network("resnet8", classes=10, channels=1), pictures, device="cpu").shape
    (3, 64)
    """
    return _apply(network, network.features, images, batch_size, device)


def evaluate(
    network: Network,
    images: Any,
    labels: Any,
    *,
    batch_size: int = BATCH,
    device: str | torch.device = "auto",
) -> Evaluation:
    """Return accuracy and mean cross-entropy on labelled images."""
    pictures = as_inputs(images)
    codes = torch.from_numpy(as_codes(labels, len(pictures), network.classes))
    logits = torch.from_numpy(predict(network, pictures, batch_size=batch_size, device=device))
    right = (logits.argmax(1) == codes).sum().item()
    loss = F.cross_entropy(logits.double(), codes).item()
    return Evaluation(accuracy=right / len(codes), loss=loss, rows=len(codes))


@contextmanager
def evaluation_mode(network: Network) -> Iterator[None]:
    """Switch the network to evaluation without gradients, and back to what it was."""
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(was_training)


def _apply(
    network: Network,
    function: Callable[[Tensor], Tensor],
    images: Any,
    batch_size: int,
    device: str | torch.device,
) -> npt.NDArray[np.float32]:
    pictures = as_inputs(images)
    check_fits(network, pictures)
    check_positive_int(batch_size, "batch_size")
    place = resolve_device(device)
    network.to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts: list[npt.NDArray[np.float32]] = []
    with evaluation_mode(network), task("running the network", total=len(pictures)) as advance:
        for start in range(0, len(pictures), batch_size):
            batch = np.ascontiguousarray(pictures[start : start + batch_size])
            outputs = function(to_pixels(torch.tensor(batch, device=place)))
            parts.append(outputs.float().cpu().numpy())
            advance(len(batch))
    return np.concatenate(parts)
