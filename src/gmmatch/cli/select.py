"""`gmmatch select`: choose rows of a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from .. import pipeline
from ..errors import InvalidInput
from ..records import Selection
from ..validation import check_keep
from ._friendly import parse_keep, parse_params, show_progress


def select(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Embeddings: a .npy file, one row each.")],
    keep: Annotated[str, typer.Option(help="How many rows to keep: 10%, a fraction or a count.")],
    labels: Annotated[Path | None, typer.Option(help="Labels: a .npy file, one per row.")] = None,
    method: Annotated[str, typer.Option(help="A name that `gmmatch methods` lists.")] = "gm-matching",
    param: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, a parameter of the method; repeatable.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the selection (Parquet).")
    ] = Path("kept.parquet"),
    guard: Annotated[
        bool | None, typer.Option("--guard/--no-guard", help="Pick trusted rows first.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on standard output.")
    ] = False,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
) -> None:
    """Choose the rows of INPUT worth keeping and write them, in pick order, to a Parquet file.

    Examples
    --------
        gmmatch select embeddings.npy --keep 10% -o kept.parquet

        gmmatch select embeddings.npy --labels labels.npy --keep 5000 --json

        gmmatch select embeddings.npy --keep 0.3 --method gm-matching-paper --seed 7
    """
    budget = parse_keep(keep)
    check_keep(budget)
    started = time.perf_counter()
    with show_progress(quiet):
        selection = pipeline.select(
            _load(source),
            keep=budget,
            labels=None if labels is None else _load(labels),
            method=method,
            guard=None if guard is None else "auto" if guard else "off",
            random_state=seed,
            **parse_params(param or []),
        )
        selection.save(output)
    facts = summary(selection, time.perf_counter() - started, output)
    typer.echo(json.dumps(facts) if as_json else sentence(facts))


def _load(path: Path) -> npt.NDArray[Any]:
    """Map a .npy file into memory, never unpickling."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(f"{path} is not a readable .npy file of numbers: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path} holds several arrays; expected a .npy file with one")
    return array


def summary(selection: Selection, seconds: float, output: Path) -> dict[str, Any]:
    """Return the facts that `--json` prints."""
    classes = None if selection.labels is None else len(np.unique(selection.labels))
    return {
        "rows": selection.n_rows,
        "kept": len(selection),
        "classes": classes,
        "method": selection.method,
        "objective": selection.objective,
        "epsilon": selection.epsilon,
        "seconds": round(seconds, 3),
        "passes": selection.details.get("passes"),
        "output": str(output),
    }


def sentence(facts: dict[str, Any]) -> str:
    """Say in words what was done."""
    classes = f" in {facts['classes']} classes" if facts["classes"] else ""
    return (
        f"kept {facts['kept']:,} of {facts['rows']:,} rows{classes} by {facts['method']}"
        f" in {facts['seconds']:.1f} s; objective {facts['objective']:.4g}; wrote {facts['output']}"
    )
