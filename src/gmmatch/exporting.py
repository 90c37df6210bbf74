"""Hand judged rows to tools in which people look at them: plain files in their formats, suspects first."""

import json
import math
import os
from collections.abc import Iterator
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
    kind, place = check_choice(to, KINDS, "to"), as_path(path, "path")
    check_ending(place, KINDS[kind], f"what {kind} reads must end")
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
    _write(kind, records, place, opened)
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


def _task(record: Record) -> Record:
    task: Record = {"data": record}
    if "suggested" in record:
        value = {"choices": [str(record["suggested"])]}
        result = {"from_name": _QUESTION, "to_name": "row", "type": "choices", "value": value}
        task["predictions"] = [{"model_version": _AGENT, "score": record["probability"], "result": [result]}]
    return task


def _argilla_record(record: Record) -> Record:
    fields = _some(record, "text", "image") or {"row": str(record["row"])}
    about = _some(record, "row", "label", "suspicion", "outlier", "kept")
    line: Record = {"id": str(record["id"]), "fields": fields, "metadata": about}
    if "suggested" in record:
        answer = {"question_name": _QUESTION, "value": str(record["suggested"]), "agent": _AGENT}
        line["suggestions"] = [answer | {"score": record["probability"]}]
    return line


def _sample(record: Record) -> Record:
    tags = ["kept" if record["kept"] else "dropped", *(["suspect"] if record["is_suspect"] else [])]
    sample: Record = {"filepath": record["image"], "tags": tags}
    sample |= _some(record, "suspicion", "outlier", "row")
    for field, name in (("ground_truth", "label"), ("suggested", "suggested")):
        if name in record:
            sample[field] = {"_cls": "Classification", "label": str(record[name])}
    if "suggested" in record:
        sample["suggested"]["confidence"] = record["probability"]
    return sample


def _label_issue(record: Record) -> Record:
    """Return a line of cleanlab's table of label issues."""
    return {
        "id": record["id"],
        "is_label_issue": record["is_suspect"],
        "label_quality": round(1 - record["suspicion"], 6),
        "given_label": record["label"],
        "predicted_label": record.get("suggested", record["label"]),
    }


def _some(record: Record, *names: str) -> Record:
    return {name: record[name] for name in names if name in record}


def _write(kind: str, records: list[Record], path: Path, data: Dataset) -> None:
    """Write records as a tool reads them."""
    needed = {"fiftyone": "image", "cleanlab": "label"}.get(kind, "row")
    if any(needed not in record for record in records):
        raise InvalidInput(
            f"fiftyone shows images in files, and {data.name} has none; to='spotlight' takes any rows"
            if kind == "fiftyone"
            else f"cleanlab's table is about labels, and {data.name} has none; name them: labels=..."
        )
    made = {"label-studio": _task, "argilla": _argilla_record, "fiftyone": _sample, "cleanlab": _label_issue}
    lines = list(map(made[kind], records)) if kind in made else records
    if kind in ("spotlight", "cleanlab"):
        arrays = {}
        for name in dict.fromkeys(name for line in lines for name in line):
            values = [line.get(name) for line in lines]
            try:
                arrays[name] = pa.array(values)
            except (pa.ArrowInvalid, pa.ArrowTypeError):  # ids of several kinds
                arrays[name] = pa.array([None if value is None else str(value) for value in values])
        write_table(pa.table(arrays), path)
        return
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as stream:
        if kind == "argilla":
            stream.writelines(f"{json.dumps(line)}\n" for line in lines)
        else:
            json.dump({"samples": lines} if kind == "fiftyone" else lines, stream, indent=1)


KINDS = {
    "label-studio": (".json",),
    "argilla": (".jsonl",),
    "fiftyone": (".json",),
    "spotlight": (".parquet", ".csv"),
    "cleanlab": (".csv", ".parquet"),
}
"""What each tool reads, by the endings of its files."""
