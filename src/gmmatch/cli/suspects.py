"""`gmmatch suspects`: which rows seem wrong."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import api
from ..errors import InvalidParameter
from . import options
from .friendly import notes, say, show_progress
from .options import ENGINE, OPENING, file, takes

_MOST_PAIRS = 5


@takes(f"labels groups reference probabilities overwrite {OPENING} {ENGINE}")
def suspects(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Rows, as for `gmmatch select`.")],
    output: Annotated[Path, options.output("What to write: .parquet, .csv or .jsonl.")] = Path(
        "suspects.parquet"
    ),
    seed: options.Seed = 0,
    fix: Annotated[
        Path | None, file("Write the labels with likely suggestions in place, for --labels; as --output.")
    ] = None,
    above: Annotated[float, file("With --fix: probability of a suggestion to take it.", metavar="P")] = 0.9,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    **asked: Any,
) -> None:
    """List the rows of INPUT by how wrong they seem, and say why.

    Examples
    --------
        gmmatch suspects embeddings.npy --labels labels.npy

        gmmatch suspects data.parquet --embedding vector --labels topic --ids doc_id -o wrong.csv

        gmmatch suspects photos/ -o wrong.jsonl

        gmmatch suspects embeddings.npy --labels labels.npy --fix better.csv --above 0.95
    """
    if fix is None and getattr(context.get_parameter_source("above"), "name", None) == "COMMANDLINE":
        raise InvalidParameter("above goes with fix; name a file for the labels: fix=...")
    started = time.perf_counter()
    with show_progress(quiet):
        found = api.list_suspects(source, random_state=seed, output=output, fix=fix, above=above, **asked)
    facts: dict[str, Any] = found.summary()
    facts |= {"seconds": round(time.perf_counter() - started, 3), "output": str(output)}
    if fix is not None:
        facts["fixed"] = {"above": above, "changes": found.changes(above), "output": str(fix)}
    say(*([json.dumps(facts)] if as_json else [*sentences(facts), *notes(found.notes)]), err=False)


def sentences(facts: dict[str, Any]) -> list[str]:
    """Say in words what was found."""
    labels, copies = facts["wrong_labels"], facts["duplicates"]
    near = "is a near-duplicate" if copies["rows"] == 1 else "are near-duplicates"
    lines = [
        f"{facts['suspect']:,} of {facts['rows']:,} rows seem wrong ({facts['share']:.1%}):"
        f" {labels['rows']:,} by their label, {facts['outliers']['rows']:,} far outside their class;"
        f" {copies['rows']:,} {near} of others"
    ]
    if "estimate" in labels:
        low, high = labels["interval"]
        about = f"About {labels['estimate']:.1%} of the labels are wrong ({low:.1%} to {high:.1%})"
        unknown = "How many labels are wrong cannot be told: the rows say little about them"
        lines.append(unknown if (low, high) == (0, 1) else about)
    else:
        lines.append("The labels were not judged: there is one class only, or rows are too few")
    if fixed := facts.get("fixed"):
        pairs = Counter((change["from"], change["to"]) for change in fixed["changes"])
        words = [f"{old!r} to {new!r}: {count:,}" for (old, new), count in pairs.most_common(_MOST_PAIRS)]
        rest = len(pairs) - _MOST_PAIRS
        more = f", and {rest:,} other pair{'s' * (rest > 1)}" if rest > 0 else ""
        told = f" ({', '.join(words)}{more})" if words else ""
        lines.append(
            f"Changed {len(fixed['changes']):,} labels, by suggestions of {fixed['above']:g} or more{told};"
            f" wrote {fixed['output']}"
        )
    return [*lines, f"Wrote {facts['output']} in {facts['seconds']:.1f} s"]
