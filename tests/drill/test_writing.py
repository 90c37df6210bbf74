"""What is read stays as it is, two writers leave the file of one of them, and a flipped bit is found."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch import checkpoints
from gmmatch.cli import app
from gmmatch.encoders.store import KEY_BYTES, VectorStore
from gmmatch.errors import InvalidInput

from .commands import environment, one_sentence, run

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 300)
ROWS = (RNG.normal(size=(300, 4)) + 3 * LABELS[:, None]).astype(np.float32)

# How an input may be named, and how a file of it: by the folder and the file's name in it.
INPUTS = {
    "a file": "{0}/s1{2}", "a pattern": "{0}/*{2}", "a folder": "{0}", "a folder with a slash": "{0}/",
    "the whole path": "{1}/{0}", "the long way round": "./{0}/../{0}", "through a link": "linked",
    "a pattern through a link": "linked/s[0-9]{2}",
}  # fmt: skip
OUTPUTS = {
    "its name": "{0}/s1{2}", "the whole path": "{1}/{0}/s1{2}", "the long way round": "{0}/../{0}/./s1{2}",
    "through a link": "linked/s1{2}", "a link": "link{2}", "a hard link": "hard{2}",
}  # fmt: skip
WORDS = {
    "select": "select {input} --labels labels.npy --keep 30 -o {output}",
    "select --suspects": "select {input} --labels labels.npy --keep 30 -o x.csv --suspects {output}",
    "suspects": "suspects {input} --labels labels.npy -o {output}",
    "suspects --fix": "suspects {input} --labels labels.npy -o x.csv --fix {output}",
    "leaks": "leaks {input} few-rows.npy -o {output}",
    "export": "export kept.parquet {input} --labels labels.npy --to cleanlab -o {output}",
}


def make_shards(ending):
    """Write shards to a folder of that name, and links to it and to one of them."""
    folder = Path(ending[1:])
    folder.mkdir()
    for number in range(3):
        part, file = ROWS[100 * number : 100 * (number + 1)], folder / f"s{number}{ending}"
        if ending == ".npy":
            np.save(file, part)
        else:
            table = pa.table({f"f{place}": column for place, column in enumerate(part.T)})
            if ending == ".parquet":
                pq.write_table(table, file)
            else:
                lines = [",".join(table.column_names), *(",".join(map(str, row)) for row in part)]
                file.write_text("\n".join(lines))
    Path("linked").symlink_to(folder)
    Path(f"link{ending}").symlink_to(folder / f"s1{ending}")
    os.link(folder / f"s1{ending}", f"hard{ending}")


def contents():
    return {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


@pytest.mark.drill
@pytest.mark.parametrize("ending", [".npy", ".parquet", ".csv"])
def test_outputs_inside_inputs(tmp_path, monkeypatch, ending, told):
    monkeypatch.chdir(tmp_path)
    make_shards(ending)
    np.save("labels.npy", LABELS)
    np.save("few.npy", LABELS[100:200])
    np.save("few-rows.npy", ROWS[:9])
    gmmatch.select(ending[1:] if ending != ".csv" else ROWS, LABELS, keep=30).save("kept.parquet")
    gmmatch.select(f"{ending[1:]}/s1{ending}", LABELS[100:200], keep=30).save("few.parquet")
    before, cases = contents(), 0
    for words, given, output in itertools.product(WORDS.values(), INPUTS.items(), OUTPUTS.values()):
        if ending == ".npy" and ("suspects" in words and "{output}" in words.partition("-o x.csv")[2]):
            continue  # suspects are no .npy
        if ending == ".npy" and words.startswith(("suspects", "leaks", "export")):
            continue
        if ending == ".csv" and given[0] != "a file":
            continue  # no shards
        names = {"input": given[1], "output": output}
        names = {name: text.format(ending[1:], tmp_path, ending) for name, text in names.items()}
        if given[0] == "a file":
            words = words.replace("labels.npy", "few.npy").replace("kept.parquet", "few.parquet")
        done = CliRunner().invoke(app, [*words.format(**names).split(), "--overwrite"])
        assert done.exit_code == 2, (words.format(**names), done.output)
        assert "is the input" in done.output
        assert contents() == before
        cases += 1
    told(
        "an output that is a part of the input, by any name", f"{ending} files", cases, "one sentence, exit 2"
    )


BESIDE = {
    "labels": "--labels {0}.npy", "ids": "--ids {0}.npy", "groups": "--groups {0}.npy",
    "reference": "--reference {0}.parquet", "probabilities": "--probabilities {0}.npy",
    "holdout": "--holdout {0}.parquet", "match-to": "--match-to {0}.parquet=0.5",
    "include": "--include {0}.npy", "exclude": "--exclude {0}.npy", "cost": "--cost {0}.npy",
    "strata": "--strata {0}.npy,more.npy", "quality": "--quality {0}.npy=0.4",
    "settings": "--settings {0}.parquet",
    "scores": "--method top-scores --scores {0}.npy", "images": "--images {0}.npy --report page.html",
}  # fmt: skip
LEADING = {
    "its name": "{0}", "the whole path": "{1}/{0}", "the long way round": "../{2}/{0}", "a link": "link-{0}",
    "a hard link": "hard-{0}", "through a link": "here/{0}",
}  # fmt: skip


@pytest.mark.drill
def test_outputs_that_options_read(tmp_path, monkeypatch, told):
    """No file that any option names is replaced, whatever it is called."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    np.save("more.npy", LABELS)
    Path("here").symlink_to(tmp_path)
    cases = 0
    for name, words in BESIDE.items():
        ending = ".npy" if ".npy" in words else ".parquet"
        if ending == ".npy":
            np.save(f"{name}.npy", LABELS)
        else:
            pq.write_table(pa.table({"v": ROWS[:30].tolist(), "label": LABELS[:30]}), f"{name}.parquet")
        Path(f"link-{name}{ending}").symlink_to(f"{name}{ending}")
        os.link(f"{name}{ending}", f"hard-{name}{ending}")
        labels = "" if name == "labels" else "--labels more.npy"
        before = contents()
        for form, output in itertools.product(LEADING.values(), ("-o {0}", "-o x.csv --suspects {0}")):
            if ending == ".npy" and "suspects" in output:
                continue
            place = output.format(form.format(f"{name}{ending}", tmp_path, tmp_path.name))
            line = f"select rows.npy {labels} --keep 30 {words.format(name)} {place} --overwrite"
            done = CliRunner().invoke(app, line.split())
            assert done.exit_code in (2, 3), (line, done.output)
            assert name == "settings" or "is the input" in done.output, (line, done.output)
            assert contents() == before, line
            cases += 1
    told("an output that any option reads", "files beside the rows", cases, "one sentence, nothing replaced")


WRITER = """
import sys
from pathlib import Path
import numpy as np
import gmmatch
from gmmatch.outputs import write_selection
rng = np.random.default_rng(int(sys.argv[2]))
rows = rng.normal(size=(4000, 2))
data = gmmatch.open(rows, ids=np.array([f"{sys.argv[2]}-{row}" for row in range(4000)]))
picked = gmmatch.select(data, 4000, method="random")
assert not sys.argv[3:] or __import__("os").getpid() < 5
for _ in range(25):
    write_selection(picked, Path(sys.argv[1]), data)
"""


def read_ids(file):
    if file.suffix == ".parquet":
        return gmmatch.load_selection(file).ids
    lines = file.read_text().splitlines()
    return np.array([line.partition(",")[0] for line in lines[file.suffix == ".csv" :]])


@pytest.mark.drill
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".txt"])
@pytest.mark.parametrize("apart", ["processes", "PID namespaces"])
def test_two_writers(tmp_path, ending, apart, told):
    prefix = []
    if apart == "PID namespaces":
        prefix = ["unshare", "--pid", "--fork"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this machine makes no namespaces")
    file, cases = tmp_path / f"kept{ending}", 0
    writers = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", WRITER, str(file), str(seed), *prefix[:1]],
            env=environment(tmp_path),
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2, 3)
    ]
    while any(writer.poll() is None for writer in writers):
        if file.exists():
            ids = read_ids(file)
            assert (len(ids), len({name.partition("-")[0] for name in ids})) == (4000, 1)
            cases += 1
    for writer in writers:
        message = writer.communicate()[1]
        assert writer.returncode == 0, message
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == [file.name]
    told(
        f"three writers of one output, in {apart}", f"{ending} files", cases, "the file of one of them, whole"
    )


@pytest.mark.drill
def test_threads_that_select_into_one_output(tmp_path, told):
    from concurrent.futures import ThreadPoolExecutor

    file = tmp_path / "kept.parquet"

    def select(seed):
        gmmatch.select(ROWS, keep=50, method="random", random_state=seed, output=file, overwrite=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(select, range(40)))
    found = gmmatch.load_selection(file)
    expected = gmmatch.select(ROWS, keep=50, method="random", random_state=found.random_state)
    assert found.indices.tolist() == expected.indices.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["kept.parquet"]
    told(
        "forty selections in eight threads with one output", "`select`", 40, "the file of one of them, whole"
    )


def everything(selection):
    """Return all that a selection says, as text."""
    parts = [selection.info, selection.params, selection.n_rows, selection.random_state, selection.method]
    arrays = [selection.indices, selection.scores, selection.distances, selection.labels, selection.ids]
    arrays += [selection.tiers, selection.centers, *vars(selection.evidence).values()]
    return repr(parts) + repr([None if value is None else np.asarray(value).tolist() for value in arrays])


@pytest.mark.drill
def test_flipped_bits_of_selections(tmp_path, told):
    file = tmp_path / "kept.parquet"
    names = np.array([f"row {row}" for row in range(300)])
    gmmatch.select(ROWS, keep=60, labels=LABELS, ids=names).save(file)
    whole, expected, refused = file.read_bytes(), everything(gmmatch.load_selection(file)), 0
    rng = np.random.default_rng(0)
    for _ in range(2000):
        content = bytearray(whole)
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
        try:
            found = gmmatch.load_selection(file)
        except InvalidInput:
            refused += 1
        else:
            assert everything(found) == expected
    assert refused > 500
    told("one flipped bit", "selection files", 2000, f"the same content, or ({refused:,}) one sentence")


@pytest.mark.drill
def test_flipped_bits_of_states(tmp_path, told):
    path, refused = tmp_path / "x.state", 0
    state = {"order": np.arange(2000), "sums": RNG.normal(size=(50, 3)), "words": np.array(["a", "bc"])}
    checkpoints.FileCheckpoint(path, "rows", {}, outputs=["kept.parquet"]).save(state)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(2000):
        content = bytearray(whole)
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        assert checkpoints.outputs_of(path) <= {"kept.parquet"}
        try:
            found = checkpoints.FileCheckpoint(path, "rows", {}, resume=True).load()
        except InvalidInput:
            refused += 1
        else:
            assert found is not None
            assert sorted(found) == sorted(state)
            assert all(np.array_equal(found[name], values) for name, values in state.items())
    told("one flipped bit", "saved states", 2000, f"the same content, or ({refused:,}) one sentence")


@pytest.mark.drill
def test_flipped_bits_of_caches(tmp_path, told):
    keys = RNG.integers(0, 256, (200, KEY_BYTES), dtype=np.uint8)
    vectors = RNG.normal(size=(200, 16)).astype(np.float32)
    with VectorStore(tmp_path / "store") as store:
        store.append(keys, vectors)
    files = [path for path in (tmp_path / "store").iterdir() if path.is_file()]
    whole, rng, missing = {file: file.read_bytes() for file in files}, np.random.default_rng(0), 0
    for number in range(600):
        file = files[number % len(files)]
        content = bytearray(whole[file])
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
        with VectorStore(tmp_path / "store") as store:
            places = store.find(keys)
            known = places >= 0
            np.testing.assert_array_equal(store.gather(places[known]), vectors[known])
        missing += int((~known).sum())
        file.write_bytes(whole[file])
    assert missing
    told("one flipped bit", "caches of vectors", 600, f"the same vectors, or ({missing:,}) encoded again")


ENVIRONMENTS = [
    "OMP_NUM_THREADS=x", "OPENBLAS_NUM_THREADS=0", "GMMATCH_CACHE_LIMIT=x",
    "GMMATCH_CACHE=/proc/x", "GMMATCH_PATIENCE=x", "TMPDIR=/nowhere", "HOME=/nowhere", "LC_ALL=C",
    "COLUMNS=x", "PYTHONOPTIMIZE=2", "PYTHONHASHSEED=7", "PYTHONIOENCODING=ascii", "PYTHONUTF8=0",
    "TERM=dumb", "GMMATCH_IMAGE_ROOT=/nowhere",
]  # fmt: skip


@pytest.mark.drill
@pytest.mark.parametrize("setting", ENVIRONMENTS)
def test_odd_environments(inputs, tmp_path, monkeypatch, setting, told):
    shutil.copytree(inputs, tmp_path / "here")
    words = "select rows.npy --labels labels.npy --keep 10% -o kept.parquet"
    assert run(tmp_path / "here", words).returncode == 0
    expected = (tmp_path / "here" / "kept.parquet").read_bytes()
    name, _, value = setting.partition("=")
    odd = os.environ | {name: value}
    if name != "GMMATCH_CACHE":
        odd["GMMATCH_CACHE"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-m", "gmmatch", *words.split(), "--overwrite"],
        cwd=tmp_path / "here", env=odd, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (tmp_path / "here" / "kept.parquet").read_bytes() == expected
    if done.returncode:
        assert done.returncode in (2, 3), done.stderr
        one_sentence(done)
    told("an odd environment", f"`{setting}`", 1, "one sentence" if done.returncode else "the same bytes")
