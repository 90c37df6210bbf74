"""Options of the commands: one name, one help text, wherever a command has it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..errors import InvalidParameter

# Headings of the help.
READ, CHOOSE, WRITE, RUN = "What is read", "How rows are chosen", "What is written", "How it runs"
# Options that commands pass on as they are, for `takes`: how data is opened, and what reads it.
OPENING = "ids embedding encoder text image on_bad_rows unlabelled header"
ENGINE = "memory engine address workers"
_DEFAULTS = {
    "on_bad_rows": "error", "unlabelled": "error", "header": "auto", "engine": "local", "device": "auto",
    "method": "gm-matching", "task": "auto", "budgets": "proportional", "duplicates": "allow",
    "projection": "classes", "overwrite": False, "force": False, "all_rows": False, "resume": False,
}  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., None])


def takes(names: str) -> Callable[[Command], Command]:
    """Return a decorator: a command takes these options of this module, too, which it is passed by name.

    `on_bad_rows` is what is called `OnBadRows` below. Options stand under their headings in the help.
    """
    keyword, headings = inspect.Parameter.KEYWORD_ONLY, (None, READ, CHOOSE, WRITE, RUN)

    def heading(each: inspect.Parameter) -> int:
        notes = getattr(each.annotation, "__metadata__", ())  # those of arguments have no heading
        return headings.index(next((note.rich_help_panel for note in notes), None))

    def decorate(command: Command) -> Command:
        kinds = {name: globals()[name.title().replace("_", "")] for name in names.split()}
        own = inspect.signature(command).parameters.values()
        found = [each.replace(kind=keyword) for each in own if each.kind is not each.VAR_KEYWORD]
        for name, kind in kinds.items():
            found.append(inspect.Parameter(name, keyword, default=_DEFAULTS.get(name), annotation=kind))
        found.sort(key=heading)
        vars(command)["__signature__"] = inspect.Signature(found)
        command.__annotations__ = {each.name: each.annotation for each in found}
        return command

    return decorate


def option(text: str, *flags: str, panel: str = RUN, **more: Any) -> Any:
    """Return an option with its help text, under a heading of the help."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **more)


def words(text: str, name: str) -> tuple[str, ...]:
    """Return the entries of an option that takes several, with commas, each once.

    >>> words("random, herding,random", "--methods")
    ('random', 'herding')
    """
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise InvalidParameter(f"{name} needs at least one entry; got {text!r}")
    return found


def column(text: str, metavar: str = "COLUMN") -> Any:
    """Return an option that names a column, such as that of the labels."""
    return option(text, metavar=metavar, panel=READ)


def choice(text: str, metavar: str | None = None, **more: object) -> Any:
    """Return an option that says how rows are chosen."""
    return option(text, panel=CHOOSE, metavar=metavar, **more)


def flag(name: str, text: str, panel: str = RUN) -> Any:
    """Return an option that is there or not."""
    return option(text, f"--{name}", panel=panel)


def file(text: str, panel: str = WRITE, metavar: str = "FILE", **more: object) -> Any:
    """Return an option that names a file."""
    return option(text, panel=panel, metavar=metavar, **more)


def output(text: str, metavar: str = "FILE") -> Any:
    """Return the option that says where to write."""
    return option(text, "--output", "-o", panel=WRITE, metavar=metavar)


# What is read.
Labels = Annotated[str | None, column("Class of each row; may be wrong.", "FILE_OR_COLUMN")]
Ids = Annotated[str | None, column("Name of each row; its number by default.", "FILE_OR_COLUMN")]
_GROUPS = "Which rows belong together (patient, user, video): they are judged together."
Groups = Annotated[str | None, column(_GROUPS, "FILE_OR_COLUMN")]
Embedding = Annotated[str | None, column("Column, array or tensor with the embeddings.")]
_ENCODERS = (
    "What encodes images or texts, as `gmmatch embed` does; by default efficientnet-lite0 or wordllama."
)
Encoder = Annotated[str | None, column(_ENCODERS, "NAME")]
_TEXT = "Column of the texts, a template such as '{title} {body}', or messages:user of chats."
Text = Annotated[str | None, column(_TEXT)]
Image = Annotated[str | None, column("Column of the images (paths or bytes).")]
_BAD = "Rows that cannot be used (unreadable, empty, NaN, without a label): refuse the input, or drop them."
OnBadRows = Annotated[str, column(_BAD, "error|drop")]
_UNLABELLED = "Rows without a label: as --on-bad-rows says, a class of their own, or picked to be labelled."
Unlabelled = Annotated[str, column(_UNLABELLED, "error|class|pick")]
_HEADER = "Whether the first line of a .csv or .tsv names the columns; auto compares it with those below."
Header = Annotated[str, column(_HEADER, "auto|yes|no")]
_IMAGES = "Images of the rows, for --report and to train on (.npy, .npz; the embeddings by default)."
Images = Annotated[Path | None, column(_IMAGES, "PATH")]
Scores = Annotated[Path | None, file("One score per row, for --method top-scores.", READ)]
# How rows are chosen.
Method = Annotated[str, choice("A name that `gmmatch methods` lists.")]
Budgets = Annotated[str, choice("How classes share the budget: proportional to their sizes, sqrt or equal.")]
_TASK = "What labels are; amounts and several labels per row are refused, with what to do instead."
Task = Annotated[str, choice(_TASK, "auto|classification|regression|multilabel")]
_GUARD = (
    "auto: pick rows that seem right first (the default of gm-matching); off (or --no-guard): believe all."
)
Guard = Annotated[str | None, choice(_GUARD, "auto|off", show_default=False)]
_REFERENCE = "Rows whose labels are known to be right, with labels: a folder or a table like INPUT."
Reference = Annotated[str | None, choice(_REFERENCE, "PATH")]
_PROBABILITIES = "Class probabilities of your own model, out of fold: .npy, .parquet or .csv."
Probabilities = Annotated[Path | None, choice(_PROBABILITIES, "FILE")]
_FIX = "Keep rows under the suggested label where it is at least so probable, such as 0.9."
Fix = Annotated[float | None, choice(_FIX, "P")]
Include = Annotated[str | None, choice("Rows that are in already: a selection, or a file of ids.", "FILE")]
Exclude = Annotated[str | None, choice("Rows that are out: a selection, or a file of ids.", "FILE")]
Holdout = Annotated[str | None, choice("Test rows: near-duplicates of them are not picked.", "PATH")]
Duplicates = Annotated[str, choice("drop: of near-duplicates pick the most believed alone.", "allow|drop")]
Cost = Annotated[str | None, choice("What rows cost, or tokens; --keep is in that unit.", "COLUMN_OR_FILE")]
# What is written.
Overwrite = Annotated[bool, flag("overwrite", "Replace outputs that exist.", WRITE)]
AllRows = Annotated[bool, flag("all-rows", "List every input row in it, with a column `kept`.", WRITE)]
Materialize = Annotated[
    Path | None, file("Also write the kept rows themselves, in a new folder.", metavar="DIR")
]
_SUSPECTS = "Also write which rows seem wrong, and why (needs labels): .parquet, .csv or .jsonl."
Suspects = Annotated[Path | None, file(_SUSPECTS)]
Report = Annotated[Path | None, file("Also write a page that shows the choice: .html.")]
_SCORES = "Also write the training run's score of every row, for --scores: .npy."
SaveScores = Annotated[Path | None, file(_SCORES)]
_MAP = "How the report's map is laid out: by a classifier of believed rows, or principal components."
Projection = Annotated[str, file(_MAP, metavar="classes|pca")]
Folder = Annotated[Path, output("Folder for the results.", "DIR")]
AsJson = Annotated[bool, flag("json", "Print one JSON document.", WRITE)]
# How it runs.
Force = Annotated[bool, flag("force", "Go on where INPUT is not what the selection was made from.")]
Resume = Annotated[bool, flag("resume", "Go on where a killed run stopped.")]
TrainConfig = Annotated[Path | None, file("How to train, for methods that need it: .toml or .json.", RUN)]
_MEMORY = "Memory to use, such as 4GB; less takes longer, and changes no picks."
Memory = Annotated[str | None, option(_MEMORY, metavar="SIZE")]
_ENGINE = "local: threads; processes; ray: a Ray cluster; the same result."
Engine = Annotated[str, option(_ENGINE, metavar="local|processes|ray")]
_ADDRESS = "With --engine ray: a running cluster, or auto; by default a new one, here."
Address = Annotated[str | None, option(_ADDRESS)]
_WORKERS = "With --engine ray or processes: how many; one per core by default."
Workers = Annotated[int | None, option(_WORKERS, min=1)]
Device = Annotated[str, option("Where networks run: auto, cpu, cuda, cuda:N or mps.")]
_CACHE_DIR = "Folder of the cache, in place of $GMMATCH_CACHE or the user's."
CacheDir = Annotated[Path | None, option(_CACHE_DIR, metavar="DIR")]
Seed = Annotated[int, option("Seed of everything random.", min=0)]
Processes = Annotated[int | None, option("Processes.  [default: one per core]", min=1, show_default=False)]
Quiet = Annotated[bool, option("No progress.", "--quiet", "-q")]
