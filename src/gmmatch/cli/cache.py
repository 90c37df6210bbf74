"""`gmmatch cache`: what is kept of encoded images and texts."""

import json
import shutil
from pathlib import Path
from typing import Annotated

from ..encoders.files import cache_limit, default_cache_dir
from . import _options as options
from ._friendly import say


def cache(
    clear: Annotated[bool, options.flag("clear", "Remove all of it.")] = False,
    cache_dir: Annotated[
        Path | None,
        options.option("Folder of the cache, in place of $GMMATCH_CACHE or the user's.", metavar="DIR"),
    ] = None,
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
        str(part.relative_to(folder)): sum(file.stat().st_size for file in part.iterdir() if file.is_file())
        for part in (*sorted((folder / "vectors").glob("*")), folder / "models")
        if part.is_dir()
    }
    if clear:
        for name in kept:
            shutil.rmtree(folder / name)
    limit = cache_limit()
    if as_json:
        say(json.dumps({"folder": str(folder), "kept": kept, "limit": limit, "cleared": clear}), err=False)
        return
    for name, size in kept.items():
        say(f"{size / 1e6:12,.1f} MB  {name}", err=False)
    word = "removed" if clear else f"of at most {limit / 1e6:,.0f} MB"
    say(f"{sum(kept.values()) / 1e6:12,.1f} MB  {word}, in {folder}", err=False)
