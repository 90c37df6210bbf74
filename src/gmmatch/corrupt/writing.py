"""Write files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InvalidInput


@contextmanager
def whole_or_nothing(*targets: Path) -> Iterator[tuple[Path, ...]]:
    """Yield a hidden neighbour of each target to write to; at the end they take their places.

    The first target comes last, so that what belongs to it is there when it appears. If anything fails
    before, no target is touched and the neighbours are removed.

    Raises `InvalidInput`: a target cannot be written.
    """
    for target in targets:
        if not target.parent.is_dir():
            raise InvalidInput(f"cannot write {target}: the folder {target.parent} does not exist")
    partials = tuple(target.with_name(f".{target.name}.{os.getpid()}.partial") for target in targets)
    try:
        yield partials
        for partial, target in reversed(list(zip(partials, targets, strict=True))):
            os.replace(partial, target)
    except OSError as error:
        raise InvalidInput(f"cannot write {targets[0]}: {error.strerror or error}") from error
    finally:
        for partial in partials:
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink(missing_ok=True)


def mask_path(target: Path, suffix: str) -> Path:
    """Return where the mask of an output goes: beside it, with ``.mask`` before the ending.

    >>> mask_path(Path("out/noisy.npy"), ".npy").as_posix(), mask_path(Path("noisy"), ".csv").as_posix()
    ('out/noisy.mask.npy', 'noisy.mask.csv')
    """
    stem = target.stem if target.suffix.lower() in (".npy", ".npz", ".csv", ".tsv", ".txt") else target.name
    return target.with_name(f"{stem}.mask{suffix}")
