"""`gmmatch embed`: images or texts into a file of vectors."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import api
from ..encoders import FAMILIES, spec_form
from . import options
from .friendly import parse_params, say, show_progress
from .options import RUN, column, file, option, takes

SHOWN = 10
_KNOWN = ", ".join(map(spec_form, FAMILIES))


@takes("device labels text image on_bad_rows unlabelled header cache_dir overwrite engine address workers")
def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="Folder of images; .txt, .csv, .tsv, .jsonl or .parquet; IDX; CIFAR; .npy or .npz.",
        ),
    ],
    output: Annotated[Path, options.output("Where to write: a .npy, and a .parquet beside it.")] = Path(
        "embeddings.npy"
    ),
    encoder: Annotated[str | None, column(f"{_KNOWN}; by default as in `gmmatch select`.", "NAME")] = None,
    ids: Annotated[str | None, column("Column of ids; otherwise row numbers or paths.")] = None,
    split: Annotated[str, column("Which part, where INPUT has both.", "train|test")] = "train",
    size: Annotated[int | None, option("Side of the images in pixels, in place of the encoder's.")] = None,
    param: Annotated[
        list[str] | None, file("Parameter of the encoder; repeatable.", RUN, "KEY=VALUE")
    ] = None,
    batch_size: Annotated[int | None, option("Rows encoded together.", min=1)] = None,
    cache: Annotated[bool, option("Keep vectors by content, so that nothing is encoded twice.")] = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    **asked: Any,
) -> None:
    """Turn images or texts into vectors, ready for `gmmatch select`.

    The same command continues a run that was interrupted or killed. Files appear whole or not at all.

    Examples
    --------
        gmmatch embed photos/ -o photos.npy

        gmmatch embed tickets.csv --text body --labels intent -o tickets.npy

        gmmatch embed train-images-idx3-ubyte.gz --encoder pixels -o fashion.npy

        gmmatch embed photos/ --engine ray --address auto -o photos.npy

        gmmatch embed photos/ --encoder onnx:model.onnx --size 224 --on-bad-rows drop -o photos.npy
    """
    began = time.perf_counter()
    asked |= {"output": output, "encoder": encoder, "ids": ids, "split": split, "batch_size": batch_size}
    asked |= {"cache": cache} | parse_params(param or []) | ({} if size is None else {"size": size})
    if asked["device"] == "auto":  # encoders that do not run by torch know none
        del asked["device"]
    try:
        with show_progress(quiet):
            result = api.embed(source, **asked)
    except KeyboardInterrupt:
        say("gmmatch: what was encoded is kept; the same command continues from there")
        raise
    facts = {
        "rows": len(result),
        "dimension": result.embeddings.shape[1],
        "classes": None if result.labels is None else len(set(result.labels.tolist())),
        "encoder": result.encoder,
        "encoded": result.encoded,
        "input_rows": result.n_rows,
        "bad_rows": [{"row": bad.row, "id": bad.id, "reason": bad.reason} for bad in result.bad_rows],
        "notes": list(result.notes),
        "seconds": round(time.perf_counter() - began, 3),
        "output": str(output),
        "rows_output": str(output.with_suffix(".parquet")),
    }
    if not quiet:
        say(*(f"gmmatch: {note}" for note in result.notes))
        if result.bad_rows:
            say(f"gmmatch: left out {len(result.bad_rows)} of {result.n_rows} rows:")
            say(*(f"  {bad.id}: {bad.reason}" for bad in result.bad_rows[:SHOWN]))
        if len(result.bad_rows) > SHOWN:
            say(f"  and {len(result.bad_rows) - SHOWN} more (--json lists all)")
    say(json.dumps(facts) if as_json else sentence(facts), err=False)


def sentence(facts: dict[str, Any]) -> str:
    """Say in words what was done."""
    rows = f"{facts['rows']:,} {'row' if facts['rows'] == 1 else 'rows'}"
    classes = facts["classes"]
    labelled = "" if classes is None else f" in {classes:,} {'class' if classes == 1 else 'classes'}"
    return (
        f"{rows}{labelled} of {facts['dimension']:,} features by {facts['encoder']}"
        f" ({facts['encoded']:,} encoded now) in {facts['seconds']:.1f} s:"
        f" {facts['output']}, {facts['rows_output']}"
    )
