"""Reproduce a table or figure: run what is missing, then write tables and pictures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import InvalidInput, InvalidParameter, require
from ...files import make_folder
from .benchmarks import Named
from .runner import finished, run_grids
from .specs import Grid, Spec, load_spec


@dataclass(frozen=True)
class Reproduced:
    """What was done."""

    # What was asked for.
    spec: Spec
    scale: str
    # Where everything is, and the tables and pictures in it.
    folder: Path
    files: list[Path]
    records: list[dict[str, Any]]  # the results, one per cell; none for figures
    new: int  # how many of them this call worked out
    seconds: float  # how long that took


def reproduce(
    name: str,
    scale: str,
    output: Path,
    *,
    data: Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    part: Mapping[str, Any] | None = None,
    tables_only: bool = False,
    say: Callable[[str], None] | None = None,
) -> Reproduced:
    """Run a spec at one scale, and write its tables and figures.

    `name`, `scale`: which spec, and its size. `output`: folder of results; each spec and scale has its own
    folder inside, and all share a cache. `data`: folder of the datasets. `workers`, `device`: as
    :func:`run_grids` takes them. `part`: which part of the table, as :meth:`Grid.narrowed` takes it.
    `tables_only`: whether to run nothing, and make tables of the results that there are. `say`: called with a
    sentence now and then.
    """
    spec = load_spec(name)
    grids = chosen_grids(spec, scale, part or {})
    require("matplotlib.figure", "Matplotlib", "figures")  # before hours of work, not after
    folder = output / f"{name}-{scale}"
    make_folder(folder)
    if spec.kind != "grid":
        write = getattr(import_module(f".{spec.kind}", __package__), f"write_{spec.kind}")
        return Reproduced(spec, scale, folder, write(folder, scale), [], 0, 0.0)
    if tables_only:
        records = finished(grids, folder / "cells")
        if not records:
            raise InvalidInput(f"there are no results in {folder}; run it without --tables-only first")
        return Reproduced(spec, scale, folder, write_results(records, folder, spec.title), records, 0, 0.0)
    run = run_grids(
        grids,
        folder / "cells",
        data=Named(data),
        cache=output / "cache",
        workers=workers,
        device=device,
        say=say,
    )
    files = write_results(run.records, folder, spec.title)
    return Reproduced(spec, scale, folder, files, run.records, run.new, run.seconds)


def chosen_grids(spec: Spec, scale: str, part: Mapping[str, Any]) -> list[Grid]:
    """Return the part of a table that was asked for."""
    if scale not in spec.scales:
        raise InvalidParameter(f"{spec.name} has the scales {', '.join(spec.scales)}; got {scale!r}")
    whole = spec.grids.get(scale, ())
    for axis in ("methods", "datasets", "scenarios", "keeps"):
        there = dict.fromkeys(value for grid in whole for value in getattr(grid, axis))
        strange = [value for value in part.get(axis) or () if value not in there]
        if strange:
            raise InvalidParameter(
                f"{spec.name} at scale {scale} has the {axis} {', '.join(map(str, there)) or 'of no table'};"
                f" got {strange[0]}"
            )
    return [grid for grid in (grid.narrowed(**part) for grid in whole) if grid.size]


def write_results(records: list[dict[str, Any]], folder: Path, title: str) -> list[Path]:
    """Write the tables and the curves of results."""
    from .figures import write_curves
    from .tables import write_tables

    curves = folder / "curves.png"
    files = write_tables(records, folder, title)
    write_curves(records, curves)
    return [*files, curves]
