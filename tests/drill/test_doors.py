"""How labels meet rows, in which order files are read, what is no file, and what files may be called.

Each kind of fault that put labels on other rows, or made a command wait for ever, with all its relatives.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import unicodedata
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.data import open_dataset
from gmmatch.errors import GmmatchError, InvalidInput

N = 24
RNG = np.random.default_rng(35)
ROWS = RNG.normal(size=(N, 3))
LABELS = RNG.integers(0, 7, N)
NAMES = RNG.integers(0, 2**62, N)

# What ids look like, by row number. Those that are the same to a reader are of one family.
IDS = {
    "row numbers": lambda row: row,
    "row numbers as text": lambda row: str(row),
    "row numbers as floats": lambda row: float(row),
    "numbers from 1 on": lambda row: row + 1,
    "numbers with zeros": lambda row: f"{row:03d}",
    "numbers with .0": lambda row: f"{row}.0",
    "large numbers": lambda row: int(NAMES[row]),
    "negative numbers": lambda row: -row - 1,
    "uuids": lambda row: str(uuid.UUID(int=int(NAMES[row]))),
    "names of files": lambda row: f"img_{row}.png",
    "names without endings": lambda row: f"img_{row}",
    "paths": lambda row: f"class{row % 3}/img_{row}.png",
    "paths of like names": lambda row: f"class{row % 3}/img_{row // 3}.png",
    "like names": lambda row: f"img_{row // 3}.png",
    "accents, composed": lambda row: unicodedata.normalize("NFC", f"caf\u00e9 {row}"),
    "accents, apart": lambda row: unicodedata.normalize("NFD", f"caf\u00e9 {row}"),
    "fractions": lambda row: row + 0.5,
}


def write_labels(path, ids, labels):
    """Write ids and labels as the kind of file that the name asks for."""
    ending = path.suffix
    if ending in (".csv", ".tsv"):
        mark = "," if ending == ".csv" else "\t"
        lines = [f"id{mark}label", *(f"{key}{mark}{label}" for key, label in zip(ids, labels, strict=True))]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif ending == ".jsonl":
        pairs = zip(ids, labels, strict=True)
        path.write_text("".join(json.dumps({"id": key, "label": label}) + "\n" for key, label in pairs))
    elif ending == ".npz":
        np.savez(path, id=np.array(ids), label=np.array(labels))
    elif ending == ".parquet":
        pq.write_table(pa.table({"id": ids, "label": labels}), path)
    else:
        feather.write_feather(pa.table({"id": ids, "label": labels}), path, compression="uncompressed")


def open_with(carrier, ids, labels):
    """Open rows that have their ids in some way."""
    if carrier == "no ids":
        return open_dataset("rows.npy", labels, on_bad_rows="drop")
    if carrier == "a list":
        return open_dataset("rows.npy", labels, ids, on_bad_rows="drop")
    if carrier == "a column that is named":
        pq.write_table(pa.table({"v": ROWS.tolist(), "key": ids}), "rows.parquet")
        return open_dataset("rows.parquet", labels, "key", on_bad_rows="drop")
    pq.write_table(pa.table({"v": ROWS.tolist(), "id": ids}), "rows.parquet")
    return open_dataset("rows.parquet", labels, on_bad_rows="drop")


CARRIERS = ("no ids", "a list", "a column that is named", "a column called id")


@pytest.mark.drill
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet", ".arrow", ".npz"])
def test_labels_are_on_their_rows_or_refused(ending, tmp_path, monkeypatch, told):
    """Every label that lands on a row is the row's own, whatever the ids of both sides look like."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    cases, joined, refused = 0, 0, []
    for theirs, carrier in itertools.product(IDS, CARRIERS):
        order = RNG.permutation(N)
        keys = [IDS[theirs](row) for row in order.tolist()]
        path = Path(f"labels{ending}")
        write_labels(path, keys, LABELS[order].tolist())
        for ours in IDS if carrier != "no ids" else ("row numbers",):
            cases += 1
            try:
                found = open_with(carrier, [IDS[ours](row) for row in range(N)], path)
            except GmmatchError as error:
                refused.append((ours, theirs, carrier, str(error)))
                continue
            joined += 1
            good = np.setdiff1d(np.arange(N), found.bad_rows)
            wrong = [row for row in good.tolist() if not _may_have(ours, theirs, row, found.labels[row])]
            assert not wrong, (theirs, carrier, ours, wrong)
    assert joined > len(IDS)
    for ours, theirs, *case in refused:
        assert ours != theirs or ours in ("like names", "fractions"), (ours, *case)
        assert len(case[-1].splitlines()) == 1
    told(
        "ids of every kind on both sides",
        f"label files that end in `{ending}`",
        cases,
        f"{joined} joined, none wrong; the others refused",
    )


def _may_have(ours, theirs, row, label):
    """Tell whether a row may have a label: that of its id, or of the only id that is like it."""
    own = _spelled(IDS[ours](row))
    same = [other for other in range(N) if _spelled(IDS[theirs](other)) == own]
    alike = [other for other in range(N) if _reads(IDS[theirs](other)) & _reads(IDS[ours](row))]
    return label in LABELS[same or alike] and len(same or alike) == 1


def _spelled(key):
    return str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)


def _reads(key):
    """Return all that an id may be read as: without `.0`, its folder or its ending, with accents composed."""
    text = unicodedata.normalize("NFC", _spelled(key))
    last = text.rpartition("/")[2]
    return {text, text.removesuffix(".0"), last, last.removesuffix(".png")}


@pytest.mark.drill
def test_ids_that_are_missing_twice_or_too_many(tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    cases = 0
    for name, seed, ending in itertools.product(IDS, range(6), (".csv", ".jsonl", ".parquet")):
        ids = [IDS[name](row) for row in range(N)]
        if len(set(ids)) < N or name == "fractions":
            continue
        rng = np.random.default_rng(seed)
        kept = sorted(rng.choice(N, N - int(rng.integers(0, 4)), replace=False).tolist())
        keys, labels = [ids[row] for row in kept], LABELS[kept].tolist()
        surplus = int(rng.integers(0, 3))
        extra = [type(ids[0])(10**6 + n) if not isinstance(ids[0], str) else f"zz{n}" for n in range(surplus)]
        twice = int(rng.integers(0, 2))
        order = rng.permutation(len(keys) + surplus + twice).tolist()
        keys, labels = keys + extra + keys[:twice], labels + [0] * surplus + labels[:twice]
        path = Path(f"labels{ending}")
        write_labels(path, [keys[at] for at in order], [labels[at] for at in order])
        cases += 1
        if twice:
            with pytest.raises(InvalidInput, match="has 1 ids more than once"):
                open_dataset("rows.npy", path, ids, on_bad_rows="drop")
            continue
        found = open_dataset("rows.npy", path, ids, on_bad_rows="drop")
        assert sorted(found.bad) == sorted(set(range(N)) - set(kept))
        assert found.labels[kept].tolist() == LABELS[kept].tolist()
        assert sum(f"for {surplus} ids that no row has" in note for note in found.notes) == bool(surplus)
        if len(kept) < N:
            with pytest.raises(InvalidInput, match="no label for its id"):
                open_dataset("rows.npy", path, ids)
    told(
        "ids missing, twice, or of no row",
        "label files",
        cases,
        "each row with its own label; the others counted and named",
    )


SHARDS = {
    "counted": lambda part: f"part{part}",
    "with zeros": lambda part: f"part-{part:05d}",
    "of eleven": lambda part: f"data-{part}-of-13",
    "from nine on": lambda part: f"x{part + 9}",
    "two numbers": lambda part: f"shard{part // 4}_{part % 4 + 8}",
    "letters": lambda part: "abcdefghijklm"[part],
    "dates": lambda part: f"2026-{part // 12 + 1}-{part % 12 + 1}",
}


@pytest.mark.drill
@pytest.mark.parametrize("ending", ["npy", "parquet", "arrow"])
def test_shards_are_read_in_the_order_of_their_numbers(ending, tmp_path, monkeypatch, told):
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    rows, labels = RNG.normal(size=(39, 3)), np.arange(39) % 5
    np.save("labels.npy", labels)
    cases = 0
    for kind, name in SHARDS.items():
        os.mkdir(kind), os.mkdir(f"{kind} labels")
        for part in range(13):
            span, file = slice(3 * part, 3 * part + 3), f"{kind}/{name(part)}.{ending}"
            np.save(f"{kind} labels/{name(part)}.npy", labels[span])
            if ending == "npy":
                np.save(file, rows[span])
            elif ending == "parquet":
                pq.write_table(pa.table({"v": rows[span].tolist()}), file)
            else:
                feather.write_feather(pa.table({"v": rows[span].tolist()}), file, compression="uncompressed")
        for given in (kind, f"{kind}/*.{ending}", f"file://{tmp_path}/{kind}/*.{ending}"):
            for beside in ("labels.npy", f"{kind} labels", f"{kind} labels/*.npy"):
                found = open_dataset(given, beside)
                cases += 1
                np.testing.assert_array_equal(np.asarray(found.rows), rows)
                assert found.labels.tolist() == labels.tolist()
                names = [Path(file).name for file in found.files]
                said = any("files are read in the order of their numbers" in note for note in found.notes)
                assert said == (names != sorted(names)), (given, found.notes)
    told(
        "names of shards of every kind",
        f"`.{ending}`, here and behind an address",
        cases,
        "natural order, and a note where letters say otherwise",
    )


HEADERS = {
    "words": lambda width: [f"x{n}" for n in range(width)],
    "numbers of columns": lambda width: [str(n) for n in range(width)],
    "numbers from 1 on": lambda width: [str(n + 1) for n in range(width)],
    "years": lambda width: [str(2000 + n) for n in range(width)],
    "wavelengths": lambda width: [f"{400.5 + n / 2:.1f}" for n in range(width)],
    "wavelengths, falling": lambda width: [f"{900.5 - n / 2:.1f}" for n in range(width)],
    "underscores": lambda width: [f"{n}_0" for n in range(width)],
    "none": lambda width: [],
}
VALUES = {
    "fractions": lambda rng, shape: np.round(rng.normal(size=shape), 3).astype(str),
    "pixels": lambda rng, shape: rng.integers(0, 256, shape).astype(str),
    "counts": lambda rng, shape: rng.integers(0, 4000, shape).astype(str),
    "sorted": lambda rng, shape: np.sort(rng.integers(0, 99, shape), axis=1).astype(str),
    "zeros and ones": lambda rng, shape: rng.integers(0, 2, shape).astype(str),
    "whole and fractions": lambda rng, shape: np.where(
        rng.random(shape) < 0.5,
        np.round(rng.normal(size=shape), 2).astype("U9"),
        rng.integers(0, 9, shape).astype("U9"),
    ),
}


@pytest.mark.drill
def test_no_row_is_lost_to_a_header_without_a_word(tmp_path, told):
    cases, guessed = 0, []
    path = tmp_path / "rows.csv"
    for (kind, header), (below, values), width, seed in itertools.product(
        HEADERS.items(), VALUES.items(), (1, 2, 3, 8, 40), range(8)
    ):
        rng = np.random.default_rng(seed)
        cells = values(rng, (30, width))
        lines = ([header(width)] if header(width) else []) + cells.tolist()
        path.write_text("".join(",".join(line) + "\n" for line in lines))
        has = bool(header(width))
        found = open_dataset(path)
        cases += 1
        taken = len(found) == len(lines) - 1
        numbers = kind not in ("words", "underscores")
        assert (
            any("the first line of" in note and "is all numbers" in note for note in found.notes) == numbers
        )
        if not numbers:
            assert taken, (kind, below, width)
        guessed += [taken == has] if width > 2 else []
        asked = open_dataset(path, header="yes" if has else "no")
        np.testing.assert_array_equal(np.asarray(asked.rows), cells.astype(float))
        assert not any("first line" in note for note in asked.notes)
    right = sum(guessed) / len(guessed)
    assert right > 0.95, right
    told(
        "first lines of every kind",
        "CSV of 1 to 40 columns",
        cases,
        f"{right:.1%} guessed right from three columns on, the others with a note; with `--header` all right",
    )


TEXTS = {
    "long numbers": ("x.csv", lambda rng: ",".join(map(repr, rng.normal(size=50).tolist())) + "\n"),
    "short numbers": ("x.csv", lambda rng: ",".join(f"{x:.2f}" for x in rng.normal(size=50)) + "\n"),
    "digits": ("x.tsv", lambda rng: "\t".join(map(str, rng.integers(0, 10, 50))) + "\n"),
    "one column": ("x.csv", lambda rng: f"{rng.normal():.4f}\n"),
    "objects": (
        "x.jsonl",
        lambda rng: json.dumps({f"x{n}": x for n, x in enumerate(rng.normal(size=9))}) + "\n",
    ),
    "lists": ("x.jsonl", lambda rng: json.dumps({"v": rng.normal(size=50).tolist()}) + "\n"),
    "lists of digits": ("x.jsonl", lambda rng: json.dumps({"v": rng.integers(0, 10, 90).tolist()}) + "\n"),
    "short lines": ("x.txt", lambda rng: "word " * int(rng.integers(1, 5)) + "\n"),
    "long lines": ("x.txt", lambda rng: "word " * 40_000 + "\n"),
}
OPEN_AND_MEASURE = """
import re, sys
from gmmatch.data import open_dataset
import pyarrow.parquet

def peak():
    return int(re.search("VmHWM: *([0-9]+)", open("/proc/self/status").read().replace("\\t", " "))[1])

before = peak()
data = open_dataset(sys.argv[1], memory=int(sys.argv[2]))
data.content and data.content.read(0, len(data))
print(len(data), peak() - before)
"""


@pytest.mark.drill
@pytest.mark.parametrize("kind", TEXTS)
def test_text_keeps_to_the_memory_that_it_is_allowed(kind, tmp_path, told):
    """With the least memory that is not refused, opening takes no more than that."""
    name, line = TEXTS[kind]
    rng, path = np.random.default_rng(0), tmp_path / name
    text = "".join(line(rng) for _ in range(max(1, 200_000 // len(line(rng)))))
    header = "\t".join(f"x{n}" for n in range(50)) if name.endswith(".tsv") else ""
    if name.endswith(".csv"):
        header = ",".join(f"x{n}" for n in range(text.partition("\n")[0].count(",") + 1))
    path.write_text((f"{header}\n" if header else "") + text * 75)  # some 15 MB
    with pytest.raises(InvalidInput, match="because text is read whole") as caught:
        open_dataset(path, memory=8 * path.stat().st_size + 1000)
    needed = 1_000_000 * (1 + int(re.search(r"some ([\d,]+) MB", str(caught.value))[1].replace(",", "")))
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AND_MEASURE, str(path), str(needed)],
        capture_output=True,
        text=True,
        check=True,
    )
    n_rows, taken = map(int, done.stdout.split())
    assert n_rows == text.count("\n") * 75
    assert 1024 * taken <= needed, (taken / 1e3, needed / 1e6)
    told("text and `--memory`", kind, 1, f"{1024 * taken / 1e6:.0f} of {needed / 1e6:.0f} MB")


def make_socket(path):
    before = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.basename(path))
    finally:
        os.chdir(before)


SPECIAL = {
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), os.symlink(f"{path}.pipe", path)),
    "a link to a device": lambda path: os.symlink("/dev/zero", path),
    "a link to nothing": lambda path: os.symlink("nowhere", path),
    "a link to itself": lambda path: os.symlink(os.path.basename(path), path),
    "a file that may not be read": lambda path: (Path(path).touch(), os.chmod(path, 0)),
    "an empty file": lambda path: Path(path).touch(),
    "a folder": os.mkdir,
}


@contextlib.contextmanager
def within(seconds):
    """Fail where something waits for ever."""

    def stop(*_):
        raise AssertionError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def make_photos(folder):
    from PIL import Image

    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(5):
            image = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(image).save(folder / name / f"{number}.png")


COMMANDS = {
    "select": "select photos --encoder pixels --keep 4 -o OUT.parquet --report OUT.html --materialize OUT",
    "suspects": "suspects photos --encoder pixels -o OUT.csv --fix OUT.jsonl",
    "embed": "embed photos --encoder pixels -o OUT.npy",
    "corrupt": "corrupt photos -o OUT",
}
DROPS = ("select", "suspects", "embed")


@pytest.mark.drill
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_image_ends_with_a_sentence(command, tmp_path, monkeypatch, told):
    cases = 0
    for place, (kind, make) in enumerate(SPECIAL.items()):
        folder = tmp_path / str(place)
        make_photos(folder / "photos")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("GMMATCH_CACHE", str(folder / "cache"))
        make(str(folder / "photos" / "a" / "x.png"))
        for drop in (False, True) if command in DROPS else (False,):
            words = COMMANDS[command].replace("OUT", f"out{drop}").split()
            with within(120):
                done = CliRunner().invoke(app, [*words, *(["--on-bad-rows", "drop"] if drop else [])])
            cases += 1
            assert done.exit_code in ((0,) if drop else (0, 3)), (kind, drop, done.output, done.exception)
            assert done.exception is None or isinstance(done.exception, SystemExit), (kind, done.exception)
            if done.exit_code:
                assert len([line for line in done.stderr.splitlines() if line]) == 1, done.stderr
                assert "x.png" in done.stderr
    told(
        "pipes, sockets, devices and links in a folder of images",
        f"`{command}`",
        cases,
        "left out, or one sentence; none waits",
    )


@pytest.mark.drill
def test_what_is_no_file_among_shards_or_labels(tmp_path, told):
    cases = 0
    kinds = {name: make for name, make in SPECIAL.items() if name not in ("a folder", "an empty file")}
    for place, ((kind, make), ending, where) in enumerate(
        itertools.product(
            kinds.items(), ("npy", "parquet", "arrow"), ("data", "labels", "one file", "labels file")
        )
    ):
        folder = tmp_path / str(place)
        (folder / "data").mkdir(parents=True), (folder / "labels").mkdir()
        for part in range(2):
            np.save(folder / "labels" / f"{part}.npy", np.arange(4))
            table = pa.table({"v": np.eye(4).tolist()})
            if ending == "npy":
                np.save(folder / "data" / f"{part}.npy", np.eye(4))
            elif ending == "parquet":
                pq.write_table(table, folder / "data" / f"{part}.parquet")
            else:
                feather.write_feather(table, folder / "data" / f"{part}.arrow", compression="uncompressed")
        odd = {
            "data": folder / "data" / f"7.{ending}", "labels": folder / "labels" / "7.npy",
            "one file": folder / f"one.{ending}", "labels file": folder / "labels.csv",
        }[where]  # fmt: skip
        make(str(odd))
        given = {"one file": odd}.get(where, folder / "data")
        labels = {"labels": str(folder / "labels"), "labels file": odd}.get(where)
        cases += 1
        with within(60), pytest.raises(GmmatchError) as caught:
            open_dataset(given, labels)
        said = str(caught.value)
        assert len(said.splitlines()) == 1
        assert odd.name in said or where == "labels", (kind, ending, said)
    told(
        "pipes, sockets, devices and links among shards", "data and labels", cases, "one sentence; none waits"
    )


ODD_NAMES = {
    "not UTF-8": b"caf\xe9",
    "accents apart": "cafe\u0301".encode(),
    "a line end": b"a\nb",
    "an escape sequence": b"a\x1b[2J",
    "a pattern": b"a[1]*?",
    "a colon": b"a:label",
    "quotes": b"a'\"`$(x)",
    "spaces": b"  a b  ",
    "a leading hyphen": b"-rf",
    "a leading equals sign": b"=1+1",
    "a percent sign": b"100%d{0}",
    "a backslash": b"a\\b",
    "other letters": "\u5199\u771f \U0001f600".encode(),
    "from right to left": "\u202eabc".encode(),
    "very long": b"n" * 200,
    "commas and semicolons": b"a,b;c",
}


@pytest.mark.drill
@pytest.mark.parametrize("ending", ["npy", "npz", "parquet", "arrow", "csv", "jsonl"])
def test_files_of_any_name(ending, tmp_path, monkeypatch, told):
    """Data, labels and outputs of such names, alone and as shards: the rows of a plain name."""
    monkeypatch.chdir(tmp_path)
    labels = np.arange(N) % 2
    table = pa.table({"v": ROWS.tolist()})
    plain = f"rows.{ending}"
    if ending == "npy":
        np.save(plain, ROWS)
    elif ending == "npz":
        np.savez(plain, v=ROWS)
    elif ending == "parquet":
        pq.write_table(table, plain)
    elif ending == "arrow":
        feather.write_feather(table, plain, compression="uncompressed")
    elif ending == "csv":
        np.savetxt(plain, ROWS, delimiter=",", header="x,y,z", comments="", fmt="%.17g")
    else:
        Path(plain).write_text("".join(json.dumps({"v": row}) + "\n" for row in ROWS.tolist()))
    np.savetxt("labels.csv", labels, fmt="%d", header="label", comments="")
    expected = gmmatch.select(plain, keep=6, labels="labels.csv").indices.tolist()
    cases = 0
    for number, raw in enumerate(ODD_NAMES.values()):
        name = os.fsdecode(raw)
        folder = tmp_path / f"{number}"
        (folder / "in").mkdir(parents=True)
        given, beside = folder / "in" / f"{name}.{ending}", folder / f"{name}.csv"
        os.link(plain, given), os.link("labels.csv", beside)
        for form in (str(given), str(folder / "in"), os.path.join(os.path.dirname(given), f"*.{ending}")):
            if form == str(folder / "in") and ending in ("csv", "jsonl"):
                continue
            cases += 1
            kept = gmmatch.select(
                form, keep=6, labels=str(beside), output=folder / f"out{name}.parquet", all_rows=True,
                overwrite=True,
                suspects=folder / f"wrong{name}.csv", report=folder / f"page{name}.html",
            )  # fmt: skip
            assert kept.indices.tolist() == expected
            with (folder / f"out{name}.parquet").open("rb") as file:
                assert sum(pq.read_table(file)["kept"].to_pylist()) == 6
    told("names of every kind", f"`.{ending}` files, labels and outputs", cases, "the rows of a plain name")


@pytest.mark.drill
@pytest.mark.parametrize("command", COMMANDS)
def test_images_of_any_name(command, tmp_path, monkeypatch, told):
    cases = 0
    for number, (kind, raw) in enumerate(ODD_NAMES.items()):
        for where in ("file", "folder"):
            folder = tmp_path / f"{number}{where}"
            make_photos(folder / "photos")
            monkeypatch.chdir(folder)
            monkeypatch.setenv("GMMATCH_CACHE", str(folder / "cache"))
            old = b"photos/a/1.png" if where == "file" else b"photos/a"
            os.rename(old, b"photos/a/" + raw + b".png" if where == "file" else b"photos/" + raw)
            for drop in (False, True) if command in DROPS else (False,):
                words = COMMANDS[command].replace("OUT", f"out{drop}").split()
                with within(120):
                    done = CliRunner().invoke(app, [*words, *(["--on-bad-rows", "drop"] if drop else [])])
                cases += 1
                assert done.exception is None or isinstance(done.exception, SystemExit), (
                    kind,
                    done.exception,
                )
                right = 3 if kind == "not UTF-8" and not drop else 0
                assert done.exit_code == right, (kind, where, drop, done.output)
    told(
        "names of every kind",
        f"images and their folders, `{command}`",
        cases,
        "a result; one sentence where a name is not UTF-8",
    )
