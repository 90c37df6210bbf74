"""`gmmatch cache`: what is kept of encoded images and texts."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from ..encoders import default_cache_dir
from ..encoders.store import cache_limit
from ..files import remove_unused
from . import options
from .friendly import say


def cache(
    clear: Annotated[bool, options.flag("clear", "Remove all of it.")] = False,
    cache_dir: options.CacheDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what is kept of encoded images and texts, or clear it.

    Beyond $GMMATCH_CACHE_LIMIT (20GB) what was used longest ago goes by itself.

    Examples
    --------
        gmmatch cache

        gmmatch cache --clear
    """
    folder = default_cache_dir() if cache_dir is None else cache_dir
    kept = {
        str(part.relative_to(folder)): _size(part)
        for part in (*sorted((folder / "vectors").glob("*")), folder / "models")
        if part.is_dir()
    }
    in_use = [name for name in kept if clear and not remove_unused(folder / name)]
    limit = cache_limit()
    if as_json:
        facts = {"folder": str(folder), "kept": kept, "limit": limit, "cleared": clear, "in_use": in_use}
        say(json.dumps(facts), err=False)
        return
    for name in in_use:
        del kept[name]
        say(f"gmmatch: {name} is in use by a run and was not removed; clear it when the run is over")
    for name, size in kept.items():
        say(f"{size / 1e6:12,.1f} MB  {name}", err=False)
    word = "removed" if clear else f"of at most {limit / 1e6:,.0f} MB"
    say(f"{sum(kept.values()) / 1e6:12,.1f} MB  {word}, in {folder}", err=False)


def _size(folder: Path) -> int:
    """Return the bytes of the files in a folder, some of which may be removed meanwhile."""
    size = 0
    for file in folder.iterdir():
        with suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size
