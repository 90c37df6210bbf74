"""`gmmatch select`: choose rows of a file."""

import json
import shlex
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any

import typer

from .. import run
from ..aims.quality import WEIGHT
from ..checkpoints import is_there
from ..errors import InvalidParameter
from ..facts import RunInfo
from ..records import load_selection
from ..run import Estimate, Plan, encodes, estimate
from ..validation import check_keep
from . import exit_code, options
from .friendly import notes, parse_params, remarks, say, show_progress
from .options import ENGINE, OPENING, choice, flag, takes

_CHOICE = "method task guard fix include exclude holdout duplicates cost reference probabilities budgets"
_OUTPUTS = "all_rows materialize suspects report projection save_scores overwrite"
_TRAINING = "scores images train_config device resume"


@takes(f"labels groups {OPENING} {_CHOICE} {_OUTPUTS} {_TRAINING} {ENGINE}")
def select(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="Embeddings: .npy, .npz, Parquet, Arrow or safetensors, one file or a folder or glob of"
            " shards; a table of numbers; a saved Hugging Face dataset; a folder of photos; chats; with"
            " --text a table of texts.",
        ),
    ],
    keep: Annotated[
        str | None,
        choice(
            "How many rows to keep: 10%, 0.1, 5000, 2M, auto (as many as a learner needs), or +5000 beyond"
            " --include. Needed without --settings.",
            "BUDGET",
        ),
    ] = None,
    settings: Annotated[
        Path | None, choice("Repeat the settings of a selection; options that you name win.", "FILE")
    ] = None,
    param: Annotated[
        list[str] | None, choice("A parameter of the method, such as clusters=off; repeatable.", "KEY=VALUE")
    ] = None,
    match_to: Annotated[
        list[str] | None,
        choice("Rows that the picks should be like, with their share; repeatable.", "PATH[=SHARE]"),
    ] = None,
    strata: Annotated[
        list[str] | None,
        choice("Columns whose values share the budget, as classes do; repeatable.", "COLUMN,COLUMN"),
    ] = None,
    quality: Annotated[
        str | None,
        choice(
            "A score of each row, larger is better. Of each class the worse rows, a share of WEIGHT (0.5),"
            " are not picked.",
            "COLUMN_OR_FILE[=WEIGHT]",
        ),
    ] = None,
    output: Annotated[
        Path,
        options.output("The selection, in pick order: .parquet or .csv; .npy or .txt for the ids alone."),
    ] = Path("kept.parquet"),
    seed: options.Seed = 0,
    dry_run: Annotated[bool, flag("dry-run", "Say what would be done, and stop.")] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    **asked: Any,
) -> None:
    """Choose the rows of INPUT worth keeping and write them, in pick order.

    Rows that seem wrong are picked last. With labels each class is matched by itself; without, groups of rows
    are found and matched (`--param clusters=off`: all rows are one class).

    Examples
    --------
        gmmatch select photos/ --keep 10% --report report.html

        gmmatch select tickets.csv --text body --labels intent --keep 20%

        gmmatch select customers.csv --labels segment --ids customer --keep 20% --suspects wrong.csv

        gmmatch select embeddings.npy --labels labels.npy --keep 5000 -o kept.parquet

        gmmatch select data.parquet --embedding vector --labels topic --ids doc_id --keep 20% -o kept.csv

        gmmatch select 'shards/*.npy' --keep 1% --memory 2GB --resume

        gmmatch select 'shards/*.npy' --keep 1% --engine ray --address auto --resume

        gmmatch select data.parquet --labels topic --keep 10% --budgets sqrt --materialize kept/

        gmmatch select data.parquet --labels topic --keep 10% --holdout test.parquet --duplicates drop

        gmmatch select new.parquet --labels topic --keep +5000 --include kept.parquet

        gmmatch select data.parquet --labels topic --keep 2M --cost tokens --strata source,language

        gmmatch select october.parquet --labels topic --settings september.parquet -o october-kept.parquet

        gmmatch select embeddings.npy --keep 30% --method gm-matching-paper --all-rows

        gmmatch select embeddings.npy --labels labels.npy --keep 30% --method el2n --images images.npy
        --train-config train.toml --save-scores el2n.npy
    """
    asked |= {"output": output, "random_state": seed, "command": this_command(), "keep": keep}
    if match_to is not None:
        asked["match_to"] = dict(with_number(word, 1.0) for word in match_to)
    if strata is not None:
        asked["strata"] = ",".join(strata)
    if quality is not None:
        asked["quality"] = with_number(quality, WEIGHT)
    if settings is not None:
        asked |= repeated(settings, context)
    asked |= parse_params(param or [])
    scores, keep = asked.pop("scores"), asked.pop("keep")
    asked |= {} if scores is None else {"scores": scores}
    if keep is None:
        raise InvalidParameter(
            "keep says how many rows to keep, such as 10% or 5000; name it, or a selection to repeat:"
            " settings=..."
        )
    plan = Plan.of(source, keep if asked["cost"] else check_keep(keep), asked)
    with show_progress(quiet):
        if dry_run:
            found = estimate(plan)
            typer.echo(json.dumps(found.as_dict()) if as_json else describe(found))
            return
        plan.check_read([scores, settings])
        stopped = not plan.overwrite and any(path.exists() for path in plan.outputs.values())
        if plan.resume and plan.state is not None and not is_there(plan.state) and not (quiet or stopped):
            kept = "; what was encoded before is not encoded again" if encodes(plan) else ""
            say(f"gmmatch: nothing to resume: there is no {plan.state}; this run starts anew{kept}")
        try:
            facts = run.write(run.run(plan))
        except KeyboardInterrupt as interrupt:
            saved = plan.state is not None and is_there(plan.state)
            resumed = f"go on with: {this_command()} --resume"
            then = [resumed] if saved else ["nothing was written", *remarks(interrupt)]
            say(f"gmmatch: {'; '.join(['interrupted', *then])}")
            raise typer.Exit(exit_code(interrupt)) from None
    say(*([json.dumps(facts.as_dict())] if as_json else sentences(facts, plan.suspects)), err=False)


def repeated(file: Path, context: typer.Context) -> dict[str, Any]:
    """Return how a selection was made, but for what other options say.

    Another method has other parameters: of those of the method, only what all share is repeated.
    """
    told = load_selection(file).settings
    said = {
        "random_state" if name == "seed" else name
        for name in context.params
        if getattr(context.get_parameter_source(name), "name", None) != "DEFAULT"
    }
    method = context.params["method"]
    if "method" in said and method != told["method"]:
        shared = {"keep", "budgets", "by_class", "random_state", "guard", *context.params}
        told = {name: value for name, value in told.items() if name in shared}
    return {name: value for name, value in told.items() if name not in said}


def with_number(text: str, default: float) -> tuple[str, float]:
    """Return a column or path, and the number that follows it, or the default.

    >>> with_number("score", 0.5), with_number("score=0.3", 0.5)
    (('score', 0.5), ('score', 0.3))
    """
    name, equals, number = text.rpartition("=")
    try:
        return (name, float(number)) if equals else (text, default)
    except ValueError:
        return text, default


def this_command() -> str:
    """Return the command that is running, without --resume."""
    return shlex.join(["gmmatch", *(word for word in sys.argv[1:] if word != "--resume")])


def sentences(facts: RunInfo, suspects: Path | None = None) -> list[str]:
    """Say in words what was done."""
    classes = f" in {facts.classes:,} class{'es' * (facts.classes > 1)}" if facts.classes else ""
    rows = "row" if facts.bad_rows == 1 else "rows"
    dropped = f"; left out {facts.bad_rows:,} bad {rows}" if facts.bad_rows else ""
    wrong = f"; {facts.suspects['suspect']:,} rows seem wrong" if facts.suspects else ""
    paths = (facts.output, suspects, facts.report, facts.materialized)
    *others, last = [str(path) for path in paths if path]
    written = f"{', '.join(others)} and {last}" if others else last
    cost = (facts.aims or {}).get("cost")
    spent = f"; they cost {cost['spent']:,.10g} of {cost['budget']:,.10g}" if cost else ""
    objective = "" if facts.objective is None else f"; objective {facts.objective:.4g}"
    done = (
        f"kept {facts.kept:,} of {facts.rows:,} rows{classes} by {facts.method} in {facts.seconds or 0:.1f} s"
        f"{spent}{dropped}{wrong}{objective}; wrote {written}"
    )
    learned = facts.learned()
    return [done, *notes([*([learned] if learned else []), *(facts.hint or "").splitlines()])]


def describe(found: Estimate) -> str:
    """Say in words what would be done."""
    classes = f" in {found.classes:,} class{'es' * (found.classes > 1)}" if found.classes else ""
    start = f"would keep {found.keep:,} of {found.rows:,} rows"
    if found.features is None:
        return (
            f"{start}{classes} by {found.method}, after encoding all of them (how long that takes is known"
            " when the encoder has been downloaded); nothing was written"
        )
    encoded = ""
    if found.encode_seconds is not None and found.encode:
        encoded = f", of which {found.encode_seconds:,.0f} s to encode {found.encode:,} rows"
    batches = "against all rows of a class" if found.batch_size is None else "in batches"
    training = ", beside the training run" if found.trains else ""
    short = "" if found.enough_memory else " (more than --memory allows)"
    rows = (found.memory_bytes or 0) / 1e6
    memory = f"{rows:,.0f} MB of memory{short}"
    if found.process_bytes:
        whole = rows + found.process_bytes / 1e6
        memory = f"{whole:,.0f} MB of memory, of which {rows:,.0f} MB count against --memory{short}"
    decoded = f" {found.temporary_bytes / 1e6:,.0f} MB in {gettempdir()}," if found.temporary_bytes else ""
    if not found.enough_temporary:
        decoded += " where there is no room for them, so that rows are decoded at every read (TMPDIR names"
        decoded += " another folder),"
    return (
        f"{start} of {found.features:,} numbers{classes} by {found.method}, {batches};"
        f" about {found.reads} reads, {memory},"
        f" {found.disk_bytes / 1e6:,.1f} MB of disk,{decoded} {found.seconds or 0:,.0f} s{encoded}{training};"
        " nothing was written"
    )
