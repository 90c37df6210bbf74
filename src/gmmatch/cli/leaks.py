"""`gmmatch leaks`: near-duplicates between two datasets."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import api
from ..files import as_path, check_apart, check_new
from ..outputs import check_output
from . import options
from .friendly import say, show_progress


@options.takes("embedding encoder text image on_bad_rows")
def leaks(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Rows, as for `gmmatch select`.")],
    test: Annotated[str, typer.Argument(metavar="TEST", help="Rows that TRAIN must not hold.")],
    output: Annotated[Path | None, options.output("The pairs: .parquet, .csv or .jsonl.")] = None,
    overwrite: options.Overwrite = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    **opening: Any,
) -> None:
    """Find rows of TRAIN that are near-duplicates of rows of TEST.

    Examples
    --------
        gmmatch leaks train.npy test.npy

        gmmatch leaks train.parquet test.parquet --embedding vector -o leaks.csv
    """
    if output is not None:
        check_apart([as_path(output, "output")], (train, test))
        check_new(output, overwrite)
        check_output(output, kind="leaks")
    with show_progress(quiet):
        found = api.leaks(train, test, random_state=seed, **opening)
    if output is not None:
        found.save(output, overwrite)
    facts = found.summary() | {"output": None if output is None else str(output)}
    written = "" if output is None else f"; wrote {output}"
    sentence = (
        f"{facts['rows']:,} rows of {train} are near-duplicates of {facts['test_rows']:,} rows of {test}"
        f" ({found.how}){written}"
    )
    say(json.dumps(facts) if as_json else sentence, err=False)
