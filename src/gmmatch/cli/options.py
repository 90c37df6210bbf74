"""Options of the commands: one name, one help text, wherever a command has it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidParameter

# Headings of the help.
READ, CHOOSE, WRITE, RUN = "What is read", "How rows are chosen", "What is written", "How it runs"


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
Groups = Annotated[
    str | None,
    column("What rows belong together (patient, user, video): judged together.", "FILE_OR_COLUMN"),
]
Embedding = Annotated[str | None, column("Column, array or tensor with the embeddings.")]
Encoder = Annotated[
    str | None,
    option(
        "What encodes images or texts, as `gmmatch embed` does; by default efficientnet-lite0 or wordllama.",
        panel=READ,
    ),
]
Text = Annotated[str | None, column("Column of the texts.")]
Image = Annotated[str | None, column("Column of the images (paths or bytes).")]
OnBadRows = Annotated[
    str,
    column(
        "Rows with NaN or infinite values, or without a label: refuse the input, or drop them.", "error|drop"
    ),
]
Unlabelled = Annotated[
    str,
    column(
        "Rows without a label: as --on-bad-rows says, a class of their own, or picked to be labelled.",
        "error|class|pick",
    ),
]
CacheDir = Annotated[
    Path | None, option("Folder of the cache, in place of $GMMATCH_CACHE or the user's.", metavar="DIR")
]
Header = Annotated[
    str,
    column(
        "Whether the first line of a .csv or .tsv names the columns; auto compares it with those below.",
        "auto|yes|no",
    ),
]
# How rows are chosen.
Budgets = Annotated[
    str, choice("How classes share the budget: proportional to their sizes, sqrt (of these) or equal.")
]
Reference = Annotated[
    str | None,
    choice("Rows whose labels are known to be right, with labels: a folder or a table like INPUT.", "PATH"),
]
Probabilities = Annotated[
    Path | None, choice("Class probabilities of your own model, out of fold: .npy, .parquet or .csv.", "FILE")
]
# What is written.
Overwrite = Annotated[bool, flag("overwrite", "Replace outputs that exist.", WRITE)]
Force = Annotated[bool, flag("force", "Go on where INPUT is not what the selection was made from.")]
Projection = Annotated[
    str,
    option(
        "How the report's map is laid out: by a classifier of believed rows, or principal components.",
        panel=WRITE,
        metavar="classes|pca",
    ),
]
Folder = Annotated[Path, output("Folder for the results.", "DIR")]
AsJson = Annotated[bool, flag("json", "Print one JSON document.", WRITE)]
# How it runs.
Memory = Annotated[
    str | None, option("Memory to use, such as 4GB; less takes longer, and changes no picks.", metavar="SIZE")
]
Engine = Annotated[
    str,
    option("local: threads; processes; ray: a Ray cluster; the same result.", metavar="local|processes|ray"),
]
Address = Annotated[
    str | None, option("With --engine ray: a running cluster, or auto; by default a new one, here.")
]
Workers = Annotated[
    int | None, option("With --engine ray or processes: how many; one per core by default.", min=1)
]
Device = Annotated[str, option("Where networks run: auto, cpu, cuda, cuda:N or mps.")]
Seed = Annotated[int, option("Seed of everything random.", min=0)]
Processes = Annotated[int | None, option("Processes.  [default: one per core]", min=1, show_default=False)]
Quiet = Annotated[bool, option("No progress.", "--quiet", "-q")]
