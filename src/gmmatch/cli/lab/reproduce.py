"""`gmmatch reproduce`: the paper's tables and figures, at the size of your machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidParameter
from ...validation import check_choice, check_keep
from .. import options
from ..friendly import print_table, show_progress
from ..options import READ, RUN, option

if TYPE_CHECKING:
    from ...lab.experiments.grid import Mean
    from ...lab.experiments.reproduce import Reproduced


PART = "Which part of it"


def _some(text: str, metavar: str = "A,B,...") -> Any:
    """Return an option that names a part of a table, with commas."""
    return option(text, panel=PART, metavar=metavar, show_default=False)


def _number(text: str, panel: str) -> Any:
    """Return an option that takes a number of at least one."""
    return option(text, panel=panel, min=1, show_default=False)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="A table or figure; see --list.")
    ] = None,
    scale: Annotated[
        str,
        option(
            "smoke: a minute, on built-in data; cpu: an hour or two on two cores; paper: the paper's"
            " networks and recipes, for a GPU.",
            panel=PART,
            metavar="smoke|cpu|paper",
        ),
    ] = "smoke",
    data: Annotated[
        Path | None,
        option(
            "Folder of the datasets: cifar-10-batches-py, cifar-100-python, tiny-imagenet-200,"
            " fashion-mnist, cifar10.npz.  [default: the folder named by GMMATCH_DATA]",
            panel=READ,
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    output: options.Folder = Path("out/reproduce"),
    methods: Annotated[str | None, _some("Some of the table's methods.")] = None,
    datasets: Annotated[str | None, _some("Some of its datasets.")] = None,
    scenarios: Annotated[str | None, _some("Some of its kinds of damage.")] = None,
    keep: Annotated[str | None, _some("Some of its budgets.", metavar="10%,20%")] = None,
    seeds: Annotated[int | None, _number("The first so many of its seeds.", PART)] = None,
    epochs: Annotated[
        int | None, _number("Of every training, to try a run out: other figures.", PART)
    ] = None,
    workers: Annotated[int | None, _number("Processes.  [default: one per GPU, else per core]", RUN)] = None,
    device: Annotated[str, option("auto, cpu, mps, cuda (every GPU), or some: cuda:0,cuda:1.")] = "auto",
    dry_run: Annotated[
        bool, options.flag("dry-run", "Run nothing; count what is left, and estimate the hours.")
    ] = False,
    tables_only: Annotated[
        bool, options.flag("tables-only", "Run nothing; make tables of the results there are.")
    ] = False,
    list_all: Annotated[bool, options.flag("list", "List what there is, and stop.")] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Reproduce a table or a figure of the paper: every method, under every kind of damage.

    One file per result; a run that was stopped goes on where it was. Tables (Markdown, CSV, LaTeX) and
    curves are written at the end.

    Examples
    --------
        gmmatch reproduce --list

        gmmatch reproduce label-noise

        gmmatch reproduce toy -o figures

        gmmatch reproduce cifar10 --scale cpu --data ~/datasets --workers 2

        gmmatch reproduce label-noise --scale paper --methods random,gm-matching --seeds 1 --dry-run
    """
    from ...lab.experiments.specs import SCALES

    if list_all:
        _show_list(as_json)
        return
    if name is None:
        raise InvalidParameter("name a table or figure; gmmatch reproduce --list shows them")
    check_choice(scale, SCALES, "--scale")
    from ...lab.experiments.reproduce import reproduce as run

    part = _part(methods, datasets, scenarios, keep) | {"seeds": seeds, "epochs": epochs}
    if dry_run:
        _show_estimate(name, scale, output, part, workers, device, as_json)
        return
    with show_progress(quiet):
        say = None if quiet else lambda words: typer.echo(words, err=True)
        done = run(
            name,
            scale,
            output,
            data=data,
            workers=workers,
            device=device,
            part=part,
            tables_only=tables_only,
            say=say,
        )
    _show(done, as_json)


def _part(
    methods: str | None, datasets: str | None, scenarios: str | None, keep: str | None
) -> dict[str, Any]:
    """Return which part of a table is wanted; None: all of it."""
    named = {"methods": methods, "datasets": datasets, "scenarios": scenarios}
    part: dict[str, Any] = {
        name: None if text is None else list(options.words(text, f"--{name}")) for name, text in named.items()
    }
    if keep is not None:
        shares = [check_keep(word) for word in options.words(keep, "--keep")]
        part["keeps"] = [round(float(check_keep(share)), 9) for share in shares]
    return {"keeps": None} | part


def _show(done: Reproduced, as_json: bool) -> None:
    """Print what was found, and what was written."""
    if as_json:
        typer.echo(json.dumps(_facts(done)))
        return
    from ...lab.experiments.grid import summarise

    print_means(summarise(done.records))
    if done.records:
        typer.echo(f"{len(done.records)} cells, {done.new} of them new, in {done.seconds:.0f} s")
    for file in done.files:
        typer.echo(f"wrote {file}")


def print_means(means: list[Mean]) -> None:
    """Print one table per scenario and target: methods down, budgets across."""
    keeps = list(dict.fromkeys(mean.keep for mean in means))
    for key in dict.fromkeys((mean.dataset, mean.scenario, mean.target) for mean in means):
        mine = [mean for mean in means if (mean.dataset, mean.scenario, mean.target) == key]
        damaged = ["damaged picks"] if any(mean.corrupted_picks is not None for mean in mine) else []
        best = {keep: max((m.accuracy for m in mine if m.keep == keep), default=0.0) for keep in keeps}
        lines = []
        for method in dict.fromkeys(mean.method for mean in mine):
            row = {mean.keep: mean for mean in mine if mean.method == method}
            cells = [_cell(row.get(keep), best[keep]) for keep in keeps]
            shares = [mean.corrupted_picks for mean in row.values() if mean.corrupted_picks is not None]
            lines.append([method, *cells, *([f"{sum(shares) / len(shares):.0%}"] if shares else [])])
        header = ["method", *(f"keep {100 * keep:.4g} %" for keep in keeps), *damaged]
        print_table(header, lines, width=110, title=" / ".join(key))
        typer.echo()


def _cell(mean: Mean | None, best: float) -> str:
    if mean is None:
        return "-"
    text = f"{mean.accuracy:.1f} ± {mean.spread:.1f}" if mean.seeds > 1 else f"{mean.accuracy:.1f}"
    return f"[bold]{text}[/bold]" if mean.accuracy == best else text


def _show_estimate(
    name: str,
    scale: str,
    output: Path,
    part: dict[str, Any],
    workers: int | None,
    device: str,
    as_json: bool,
) -> None:
    from ...lab.experiments.reproduce import chosen_grids
    from ...lab.experiments.specs import load_spec
    from ...lab.experiments.workload import estimate_work

    folder = output / f"{name}-{scale}" / "cells"
    found = estimate_work(chosen_grids(load_spec(name), scale, part), folder, workers=workers, device=device)
    if as_json:
        trainings = sum(found.trainings.values())
        typer.echo(json.dumps({"cells": found.cells, "trainings": trainings, "hours": found.hours}))
        return
    for line in found.lines():
        typer.echo(line)


def _facts(done: Reproduced) -> dict[str, Any]:
    from ...lab.experiments.grid import summarise

    return {
        "name": done.spec.name,
        "scale": done.scale,
        "cells": len(done.records),
        "new": done.new,
        "seconds": round(done.seconds, 3),
        "output": str(done.folder),
        "files": [str(file) for file in done.files],
        "results": [asdict(mean) for mean in summarise(done.records)],
    }


def _show_list(as_json: bool) -> None:
    from ...lab.experiments.specs import load_spec, spec_names

    specs = [load_spec(name) for name in spec_names()]
    cells = {
        spec.name: {scale: sum(grid.size for grid in spec.grids.get(scale, ())) for scale in spec.scales}
        for spec in specs
    }
    if as_json:
        listed = [
            {"name": spec.name, "title": spec.title, "about": spec.about, "cells": cells[spec.name]}
            for spec in specs
        ]
        typer.echo(json.dumps(listed))
        return
    lines = []
    for spec in specs:
        sizes = (f"{scale} ({count})" if count else scale for scale, count in cells[spec.name].items())
        lines.append((spec.name, ", ".join(sizes), spec.about))
    print_table(("name", "scales (results)", "what it shows"), lines, width=120, words=3)
