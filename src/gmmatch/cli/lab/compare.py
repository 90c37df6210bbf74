"""`gmmatch compare`: which method would serve your data."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...errors import InvalidParameter
from ...lab.experiments.contenders import compared_methods
from ...validation import check_keep
from .. import options
from ..friendly import notes, say, show_progress
from ..options import CHOOSE, READ, option
from .reproduce import print_means

MEASURE = "How they are measured"
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="What `gmmatch select` takes, with labels: embeddings, a table of numbers, a folder of photos;"
        " with --text or --image a table of texts or photos.",
    ),
]
Methods = Annotated[
    str | None,
    option(
        "Names that `gmmatch methods` lists, with commas; name+guard: trusted rows first."
        f"  [default: {', '.join(compared_methods())}]",
        panel=CHOOSE,
        metavar="A,B,...",
        show_default=False,
    ),
]
Damage = Annotated[
    str,
    option(
        "Damage done to the training part on purpose, with commas: clean (none), labels-20,"
        " images-20, gross-20; any percentage.",
        panel=MEASURE,
        metavar="A,B,...",
    ),
]
Proxy = Annotated[
    str | None,
    option(
        "Encode images or texts first, as `gmmatch select` does; or a network that is trained here."
        "  [default: efficientnet-lite0 for photos, wordllama for texts]",
        panel=READ,
        show_default=False,
    ),
]
HeldOut = Annotated[
    str,
    option(
        "Share of each class held out to measure on; its labels are believed.", panel=MEASURE, metavar="SHARE"
    ),
]


def compare(
    source: Data,
    labels: options.Labels = None,
    methods: Methods = None,
    keep: Annotated[
        str, option("Budgets, with commas: 10%, 0.1 or 500.", panel=CHOOSE, metavar="10%,20%")
    ] = "5%,10%,30%",
    budgets: options.Budgets = "proportional",
    corrupt: Damage = "clean",
    target: Annotated[
        str, option("What learns the kept rows: linear-probe, or for images a network.", panel=MEASURE)
    ] = "linear-probe",
    ids: options.Ids = None,
    embedding: options.Embedding = None,
    encoder: Proxy = None,
    text: options.Text = None,
    image: options.Image = None,
    on_bad_rows: options.OnBadRows = "error",
    unlabelled: options.Unlabelled = "error",
    header: options.Header = "auto",
    test: Annotated[
        str | None,
        option(
            "Rows known to be right to measure on, as DATA; none is held out then.",
            panel=MEASURE,
            metavar="PATH",
        ),
    ] = None,
    test_labels: Annotated[
        str | None, option("Their labels, as --labels.", panel=MEASURE, metavar="FILE_OR_COLUMN")
    ] = None,
    test_share: HeldOut = "25%",
    seeds: Annotated[int, option("How many splits to average over.", panel=MEASURE, min=1)] = 3,
    epochs: Annotated[
        int | None, option("Of a network's training.", panel=MEASURE, min=1, show_default=False)
    ] = None,
    severity: Annotated[int, option("Of damaged images.", panel=MEASURE, min=1, max=5)] = 3,
    output: options.Folder = Path("out/compare"),
    workers: options.Processes = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Try several methods on DATA: keep some rows by each, learn them, and measure on held-out rows.

    Prints a table and what it advises, and writes it (Markdown, CSV, LaTeX) with a picture of accuracy
    against budget. Budgets that leave a class without a row are left out. What is done already is not done
    again.

    Examples
    --------
        gmmatch compare embeddings.npy --labels labels.npy

        gmmatch compare flowers.csv --labels species --corrupt clean,labels-20 --keep 10%,30%

        gmmatch compare flowers.csv --labels species --budgets sqrt

        gmmatch compare photos/ --methods random,herding,gm-matching

        gmmatch compare tickets.csv --text body --labels intent --test checked.csv

        gmmatch compare images.npy --labels labels.npy --encoder resnet8 --target resnet8
    """
    from ...lab.experiments.compare import Comparison, OwnData, advise, as_shown
    from ...lab.experiments.compare import compare as run
    from ...lab.experiments.grid import summarise

    held_out = check_keep(test_share)
    plan = Comparison(
        methods=compared_methods() if methods is None else options.words(methods, "--methods"),
        keeps=tuple(_share(word) for word in options.words(keep, "--keep")),
        scenarios=options.words(corrupt, "--corrupt"),
        target=target,
        seeds=seeds,
        epochs=epochs,
        severity=severity,
        budgets=budgets,
    )
    data = OwnData(
        path=source, labels=labels, ids=ids, embedding=embedding, text=text, image=image, encoder=encoder,
        images=plan.needs_images, test=test, test_labels=test_labels, test_share=float(held_out),
        on_bad_rows=on_bad_rows, unlabelled=unlabelled, header=header,
    )  # fmt: skip
    told: list[str] = []

    def note(words: str) -> None:
        told.append(words)
        if not quiet:
            say(f"gmmatch: {words}")

    with show_progress(quiet):
        done, files = run(data, plan, output, workers=workers, say=note)
    means, shown = summarise(done.records), as_shown(done.records)
    remarks = data.encoded[2]
    if not quiet:
        say(*notes(remarks))
    if as_json:
        facts = {
            "notes": [*remarks, *(words for words in told if words.startswith("left out"))],
            "advice": advise(shown),
            "rows": len(data.content[0]),
            "classes": len(data.content[2]),
            "cells": len(done.records),
            "new": done.new,
            "seconds": round(done.seconds, 3),
            "output": str(output),
            "files": [str(file) for file in files],
            "results": [asdict(mean) for mean in means],
        }
        typer.echo(json.dumps(facts))
        return
    print_means(summarise(shown))
    say(*(f"wrote {file}" for file in files), *(f"advice: {words}" for words in advise(shown)), err=False)


def _share(word: str) -> float:
    share = check_keep(word)
    if isinstance(share, str):
        raise InvalidParameter(f"keep must be fractions or counts to compare methods at; got {word}")
    return 1.0 if share == 1 and "." not in word and "%" not in word else share
