"""Networks on disk: a plain dictionary of tensors and JSON-able facts, read without running code.

Written by ``torch.save`` and read by ``torch.load(weights_only=True)``, which admits tensors, numbers,
text, lists and dictionaries only. While a run is under way the same file also holds the state that
it continues from; such a file can be used as an encoder like any other.
"""

import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...errors import InvalidInput
from ...facts import plain
from ...files import whole_file
from .inference import resolve_device
from .networks import BUILDERS, Network, build_network

FORMAT = "gmmatch-network"
FORMAT_VERSION = 1

# What torch raises for files that are not what they should be.
_DAMAGED = (OSError, RuntimeError, EOFError, LookupError, TypeError, ValueError, AttributeError, MemoryError)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a checkpoint file holds."""

    network: Network  # the network with its weights, in evaluation mode
    # The label that each class number stands for, or None where labels are the numbers themselves.
    labels: tuple[Any, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)  # facts about the run, as plain data
    # What a training run needs to go on, or to give its record again; None where there was no run.
    progress: Mapping[str, Any] | None = None


def save_checkpoint(
    path: str | os.PathLike[str],
    network: Network,
    *,
    labels: Sequence[Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    progress: Mapping[str, Any] | None = None,
) -> None:
    """Write a network's weights and what is needed to build it again.

    The file appears whole or not at all; one that was there before is replaced.

    `network`: any network of :func:`build_network`. `labels`, `metadata`, `progress`: see
    :class:`Checkpoint`.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "network.pt"
    >>> save_checkpoint(file, build_network("resnet8", classes=2), labels=["cat", "dog"])
    >>> loaded = load_checkpoint(file)
    >>> loaded.network.name, loaded.labels
    ('resnet8', ('cat', 'dog'))
    """
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "network": network.name,
        "classes": network.classes,
        "channels": network.channels,
        "labels": None if labels is None else plain(list(labels)),
        "metadata": plain(metadata or {}),
        "weights": {key: value.detach().cpu() for key, value in network.state_dict().items()},
        "progress": None if progress is None else dict(progress),
    }
    try:
        with whole_file(path) as partial:
            torch.save(content, partial)
    except RuntimeError as error:  # torch's own writer reports a missing folder or a full disk so
        raise InvalidInput(f"cannot write {os.fspath(path)}: {error}") from error


def load_checkpoint(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a file written by :func:`save_checkpoint`; no code in it is ever run."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of what a damaged byte seems to mean
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (*_DAMAGED, pickle.UnpicklingError) as error:
        # What torch says of other files is advice to run the code in them.
        damaged = "it is damaged, or holds more than weights and plain values, which is never run"
        reason = (isinstance(error, OSError) and error.strerror) or damaged
        raise InvalidInput(f"cannot read the checkpoint {os.fspath(path)}: {reason}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f"{os.fspath(path)} is not a network written by gmmatch")
    if content.get("version") != FORMAT_VERSION:
        raise InvalidInput(
            f"{os.fspath(path)} has network format {content.get('version')};"
            f" this version of gmmatch reads {FORMAT_VERSION}"
        )
    if content.get("network") not in BUILDERS:
        raise InvalidInput(
            f"{os.fspath(path)} holds a network {content.get('network')!r};"
            f" this version of gmmatch knows {', '.join(BUILDERS)}"
        )
    try:
        network = build_network(content["network"], content["classes"], content["channels"])
        network.load_state_dict(content["weights"])
        labels = content["labels"]
        metadata, progress = content["metadata"], content["progress"]
    except _DAMAGED as error:
        raise InvalidInput(f"{os.fspath(path)} is damaged: its weights do not fit its network") from error
    network.to(resolve_device(device))
    return Checkpoint(
        network=network.eval(),
        labels=None if labels is None else tuple(labels),
        metadata=metadata,
        progress=progress,
    )
