"""Hand judged rows to tools in which people look at them: plain files in their formats, suspects first."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .arrays import IntArray
from .data import Dataset, Unreadable
from .errors import InvalidInput
from .facts import WRONG
from .files import as_path, check_apart, check_new, whole_file
from .inputs import check_belongs, check_same, open_data
from .outputs import check_ending, write_table
from .records import Selection, load_selection
from .validation import as_labels, check_choice

_QUESTION = "label"
_AGENT = "gmmatch"

Record = dict[str, Any]


def export(
    selection: Selection | str | os.PathLike[str],
    data: object,
    path: str | os.PathLike[str],
    *,
    to: str,
    labels: object = None,
    overwrite: bool = False,
    force: bool = False,
    **opening: Any,
) -> int:
    """Write every row with what is known of it, for a tool that people look at rows with.

    `selection`: what `gmmatch.select` returned, or its file. `data`, `labels`, `opening`: what the rows were
    selected from, as for `gmmatch.open`. `to`: `label-studio` (tasks with predictions), `argilla` (records
    with suggestions), `fiftyone` (samples), `spotlight` (a table) or `cleanlab` (its table of label issues).
    `overwrite`, `force`: whether to replace a file, and to go on where the rows or labels are not those that
    the selection was made from. Returns how many rows were written.

    >>> import json, pathlib, tempfile, numpy as np, gmmatch
    >>> rows, labels = np.random.default_rng(0).normal(size=(60, 4)), np.repeat(["a", "b"], 30)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tasks.json"
    >>> gmmatch.export(gmmatch.select(rows, labels), rows, file, to="label-studio", labels=labels)
    60
    """
    kind = check_choice(to, KINDS, "to")
    endings, write = KINDS[kind]
    place = as_path(path, "path")
    check_ending(place, endings, f"what {kind} reads must end")
    check_apart([place], (selection, data, labels, opening.get("ids")))
    chosen = selection if isinstance(selection, Selection) else load_selection(selection)

    def check_place(found: Dataset) -> None:
        check_belongs(chosen, found)
        check_apart([place], found.files)
        check_new(place, overwrite)

    # Without force, images and texts are encoded, of which the cache has the vectors.
    opened = open_data(data, labels, encode=not force, before_encoding=check_place, **opening)
    check_place(opened)
    records = list(_records(chosen, opened, check_same(chosen, opened, force)))
    opened.check_unchanged()
    write(records, place, opened)
    return len(records)


def _records(selection: Selection, data: Dataset, bad: IntArray) -> Iterator[Record]:
    """Yield every row that is not bad, the most suspicious first."""
    n_rows, evidence, content = selection.n_rows, selection.evidence, data.content
    classes, codes = (np.empty(0), None) if data.labels is None else as_labels(data.labels, n_rows)
    names, ids = classes.tolist(), None if data.ids is None else data.ids.tolist()
    wrong = outlier = np.zeros(n_rows)
    if evidence is not None:
        wrong, outlier = (np.nan_to_num(one.astype(np.float64)) for one in (evidence.wrong, evidence.outlier))
    ranks = {row: rank for rank, row in enumerate(selection.indices.tolist())}
    order = np.lexsort((np.arange(n_rows), -outlier, -wrong))
    for row in order[~np.isin(order, bad)].tolist():
        found: Record = {
            "id": row if ids is None else ids[row],
            "row": row,
            "kept": row in ranks,
            "rank": ranks.get(row),
            "suspicion": round(float(wrong[row]), 6),
            "outlier": round(float(outlier[row]), 6),
            "is_suspect": bool(wrong[row] >= WRONG),
        }
        if codes is not None:
            found["label"] = names[codes[row]]
            if evidence is not None and evidence.labels_judged and found["is_suspect"]:
                likely, better = float(evidence.likely[row]), int(evidence.suggested[row])
                # With force, the labels may have fewer classes.
                if math.isfinite(likely) and likely > 0 and better < len(names):
                    found |= {"suggested": names[better], "probability": round(likely, 6)}
        if content is not None and content.kind == "image":
            found |= {} if content.paths is None else {"image": os.path.abspath(content.paths[row])}
        elif content is not None and not isinstance(text := content.read(row, row + 1)[0], Unreadable):
            found["text"] = str(text)
        yield found


def _label_studio(records: list[Record], path: Path, data: Dataset) -> None:
    tasks = []
    for record in records:
        task: Record = {"data": record}
        if "suggested" in record:
            value = {"choices": [str(record["suggested"])]}
            result = {"from_name": _QUESTION, "to_name": "row", "type": "choices", "value": value}
            prediction = {"model_version": _AGENT, "score": record["probability"], "result": [result]}
            task["predictions"] = [prediction]
        tasks.append(task)
    _write_text(json.dumps(tasks, indent=1), path)


def _argilla(records: list[Record], path: Path, data: Dataset) -> None:
    lines = []
    for record in records:
        fields = _some(record, "text", "image") or {"row": str(record["row"])}
        about = _some(record, "row", "label", "suspicion", "outlier", "kept")
        line: Record = {"id": str(record["id"]), "fields": fields, "metadata": about}
        if "suggested" in record:
            answer = {"question_name": _QUESTION, "value": str(record["suggested"]), "agent": _AGENT}
            line["suggestions"] = [answer | {"score": record["probability"]}]
        lines.append(json.dumps(line) + "\n")
    _write_text("".join(lines), path)


def _fiftyone(records: list[Record], path: Path, data: Dataset) -> None:
    if any("image" not in record for record in records):
        raise InvalidInput(
            f"fiftyone shows images in files, and {data.name} has none; to='spotlight' takes any rows"
        )
    samples = []
    for record in records:
        tags = ["kept" if record["kept"] else "dropped", *(["suspect"] if record["is_suspect"] else [])]
        sample: Record = {"filepath": record["image"], "tags": tags}
        sample |= _some(record, "suspicion", "outlier", "row")
        for field, name in (("ground_truth", "label"), ("suggested", "suggested")):
            if name in record:
                sample[field] = {"_cls": "Classification", "label": str(record[name])}
        if "suggested" in record:
            sample["suggested"]["confidence"] = record["probability"]
        samples.append(sample)
    _write_text(json.dumps({"samples": samples}, indent=1), path)


def _spotlight(records: list[Record], path: Path, data: Dataset) -> None:
    names = dict.fromkeys(name for record in records for name in record)
    _write_columns({name: [record.get(name) for record in records] for name in names}, path)


def _cleanlab(records: list[Record], path: Path, data: Dataset) -> None:
    """Write the columns of cleanlab's table of label issues."""
    if any("label" not in record for record in records):
        raise InvalidInput(
            f"cleanlab's table is about labels, and {data.name} has none; name them: labels=..."
        )
    columns = {
        "id": [record["id"] for record in records],
        "is_label_issue": [record["is_suspect"] for record in records],
        "label_quality": [round(1 - record["suspicion"], 6) for record in records],
        "given_label": [record["label"] for record in records],
        "predicted_label": [record.get("suggested", record["label"]) for record in records],
    }
    _write_columns(columns, path)


def _write_text(text: str, path: Path) -> None:
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _write_columns(columns: Mapping[str, list[Any]], path: Path) -> None:
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # ids of several kinds
            arrays[name] = pa.array([None if value is None else str(value) for value in values])
    write_table(pa.table(arrays), path)


def _some(record: Record, *names: str) -> Record:
    return {name: record[name] for name in names if name in record}


KINDS: dict[str, tuple[tuple[str, ...], Callable[[list[Record], Path, Dataset], None]]] = {
    "label-studio": ((".json",), _label_studio),
    "argilla": ((".jsonl",), _argilla),
    "fiftyone": ((".json",), _fiftyone),
    "spotlight": ((".parquet", ".csv"), _spotlight),
    "cleanlab": ((".csv", ".parquet"), _cleanlab),
}
"""What each tool reads, by the endings of its files, and what writes it."""
