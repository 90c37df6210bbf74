"""Nothing that is read is overwritten, and nothing that is written is torn."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch import checkpoints, files
from gmmatch.cli import app
from gmmatch.data import check_addresses_apart
from gmmatch.encoders import embed_input
from gmmatch.encoders.store import KEY_BYTES, VectorStore
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.files import remove_partials, remove_partials_in, whole_file, whole_files
from gmmatch.run import Plan

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 300)
ROWS = (RNG.normal(size=(300, 4)) + 3 * LABELS[:, None]).astype(np.float32)
IMAGES = RNG.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)


class Means:
    """An encoder whose vectors are kept: the mean colour of an image."""

    name, kind, dimension, revision, batch_size = "means", "image", 3, "1", 8

    def prepare(self, item):
        return item

    def encode(self, batch):
        return np.stack([item.mean((0, 1)) for item in batch]).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Shards of rows in three kinds of file, and their labels, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    Path("sh").mkdir()
    Path("pq").mkdir()
    for number in range(3):
        part = ROWS[100 * number : 100 * (number + 1)]
        np.save(f"sh/s{number}.npy", part)
        pq.write_table(pa.table({"embedding": list(part)}), f"pq/p{number}.parquet")
    np.save("labels.npy", LABELS)
    return tmp_path


def run(words):
    return CliRunner().invoke(app, words.split())


def contents(folder):
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


class TestWhatIsReadIsNotOverwritten:
    @pytest.mark.parametrize(
        "words",
        [
            "select sh/*.npy --keep 9 -o sh/s1.npy",
            "select sh --keep 9 -o sh/s1.npy",
            "select pq --keep 9 -o pq/p1.parquet",
            "select pq/*.parquet --labels labels.npy --keep 9 --suspects pq/p2.parquet",
            "select sh --keep 9 -o link.npy",
            "select sh/*.npy --keep 9 -o hard.npy",
            "suspects pq --labels labels.npy -o pq/p0.parquet",
            "suspects pq/*.parquet --labels labels.npy -o w.csv --fix pq/p0.parquet",
            "leaks pq test.parquet -o test.parquet",
            "leaks pq test.parquet -o pq/p1.parquet",
            "export kept.parquet pq --to spotlight -o kept.parquet",
            "export kept.parquet pq --to spotlight -o pq/p1.parquet",
            "export kept.parquet pq --ids names.csv --to cleanlab -o names.csv",
            "select sh --labels labels.npy --keep 9 -o labels.npy",
            "select sh --keep 9 --method top-scores --scores scores.npy -o scores.npy",
            "select sh --labels labels.npy --groups names.csv --keep 9 -o names.csv",
            "select sh --quality scores.npy=0.3 --keep 9 -o scores.npy",
            "select sh --quality scores.npy --keep 9 -o scores.npy",
            "select sh --strata names.csv,scores.npy --keep 9 -o scores.npy",
            "select sh --strata names.csv:id --keep 9 -o names.csv",
            "select sh --holdout pq --keep 9 -o pq/p1.parquet",
            "select sh --match-to pq=0.5 --match-to sh/s0.npy=1 --keep 9 -o pq/p1.parquet",
            "select sh --settings kept.parquet --keep 9 -o kept.parquet",
            "select sh --exclude kept.parquet --keep 9 -o kept.parquet",
            "select sh --labels labels.npy --probabilities scores.npy --keep 9 -o scores.npy",
            "suspects sh --labels labels.npy --groups names.csv -o names.csv",
            "suspects sh --labels labels.npy --probabilities names.csv -o w.csv --fix names.csv",
            "suspects sh --labels labels.npy --reference test.parquet -o test.parquet",
            "embed images.npy --encoder pixels -o images.npy",
            "corrupt labels.npy -o labels.npy",
            "corrupt photos --preview photos/0.png",
        ],
    )
    def test_by_the_command_line(self, folder, words):
        np.save("images.npy", IMAGES)
        np.save("scores.npy", np.arange(300.0))
        shutil.copy("pq/p0.parquet", "test.parquet")
        gmmatch.select("pq", keep=9).save("kept.parquet")
        Path("names.csv").write_text("".join(f"row-{row}\n" for row in range(300)))
        Path("photos").mkdir()
        from PIL import Image

        for number, image in enumerate(IMAGES[:3]):
            Image.fromarray(image).save(f"photos/{number}.png")
        Path("link.npy").symlink_to("sh/s1.npy")
        os.link("sh/s1.npy", "hard.npy")
        before = contents(".")
        done = run(f"{words} --overwrite")
        assert done.exit_code == 2, done.output
        assert "is the input; name another file for the output" in done.output
        assert contents(".") == before

    @pytest.mark.parametrize(
        "words",
        [
            "select sh --keep 9 -o sh/kept.npy",
            "select sh/s*.npy --keep 9 -o sh/selected.npy",
            "select pq --keep 9 -o ./pq/../pq/kept.parquet",
            "select pq --labels labels.npy --keep 9 --suspects pq/wrong.parquet",
            "suspects pq/*.parquet --labels labels.npy -o pq/wrong.parquet",
            "leaks pq sh/s0.npy -o pq/leaks.parquet",
            "leaks sh/s0.npy pq/*.parquet -o pq/leaks.parquet",
            "export kept.parquet pq --to spotlight -o pq/rows.parquet",
            "select photos --encoder pixels --keep 2 --materialize photos/a/kept",
            "embed photos --encoder pixels -o photos/vectors.npy",
        ],
    )
    def test_nothing_is_added_to_what_is_read(self, folder, words):
        """The next run would read it as well."""
        from PIL import Image

        Path("photos", "a").mkdir(parents=True)
        for number, image in enumerate(IMAGES[:3]):
            Image.fromarray(image).save(f"photos/a/{number}.png")
        gmmatch.select("pq", keep=9).save("kept.parquet")
        before = contents(".")
        done = run(words)
        assert done.exit_code == 2, done.output
        assert "from then on" in done.output or "lies inside the input" in done.output
        assert contents(".") == before

    @pytest.mark.parametrize(
        ("given", "output", "said"),
        [
            ("s3://bucket/sh/s1.npy", "s3://bucket/sh/s1.npy", "is the input; name another file"),
            ("s3://bucket/sh/s1.npy", "s3a://bucket/./sh//s1.npy", "is the input; name another file"),
            ("s3://bucket/rows.npy --labels s3://bucket/y.npy", "s3://bucket/y.npy", "is the input"),
            ("s3://bucket/rows.npy --labels s3://bucket/y.csv:b", "s3://bucket/y.csv", "is the input"),
            ("s3://bucket/sh/*.npy", "s3://bucket/sh/s1.npy", "would be read with s3://bucket/sh/*.npy"),
            ("s3://bucket/sh", "s3://bucket/sh/kept.npy", "would be read with s3://bucket/sh; name another"),
            (
                "s3://bucket/rows.npy --holdout s3://bucket/test",
                "s3://bucket/test/a.parquet",
                "would be read",
            ),
            ("hf://datasets/me/rows/*.parquet", "hf://datasets/me/rows/kept.parquet", "would be read with"),
        ],
    )
    def test_behind_an_address(self, folder, monkeypatch, given, output, said):
        """Nothing is asked of a store first: the names say it."""
        monkeypatch.setattr("gmmatch.data.remote.find_file_system", None)
        source, *words = given.split()
        options = dict(zip([word[2:] for word in words[::2]], words[1::2], strict=True))
        plan = Plan.of(source, 9, options | {"output": output, "overwrite": True})
        with pytest.raises(InvalidParameter, match=re.escape(said)):
            plan.check_outputs()

    def test_addresses_that_are_others_may_be_written_to(self):
        for output in ("s3://bucket/kept/s1.npy", "s3://other/sh/s1.npy", "gs://bucket/sh/s1.npy"):
            check_addresses_apart([output], ["s3://bucket/sh/*.npy", "s3://bucket/sh", "rows.npy", None])

    @pytest.mark.parametrize("name", ["labels.npy", "names.csv", "groups.csv"])
    def test_what_a_dataset_was_opened_with(self, folder, name):
        """Files of labels, ids and groups are known to what a dataset gave, after it was opened."""
        Path("names.csv").write_text("".join(f"row-{row}\n" for row in range(300)))
        Path("groups.csv").write_text("".join(f"group-{row // 2}\n" for row in range(300)))
        before = contents(".")
        data = gmmatch.open("sh/*.npy", "labels.npy", ids="names.csv", groups="groups.csv")
        link = Path(f"link{Path(name).suffix.replace('npy', 'csv')}")
        link.symlink_to(name)
        for found in (gmmatch.suspects(data), gmmatch.select(data, keep=9).suspects()):
            with pytest.raises(InvalidParameter, match="is the input; name another file"):
                found.save(link, overwrite=True)
        link.unlink()
        assert contents(".") == before

    def test_by_python(self, folder):
        opened = gmmatch.open("sh")
        mapped = np.load("sh/s0.npy", mmap_mode="r")
        before = contents(".")
        for given, output in ((opened, "sh/s1.npy"), (mapped, "sh/s0.npy"), (mapped[5:, :2], "sh/s0.npy")):
            with pytest.raises(InvalidParameter, match="is the input"):
                gmmatch.select(given, keep=5, output=output, overwrite=True)
        with pytest.raises(InvalidParameter, match="is the input"):
            gmmatch.select("sh", keep=5, state="sh/s2.npy")
        assert contents(".") == before

    def test_by_the_verbs_of_what_was_found(self, folder):
        Path("labels.csv").write_text("label\n" + "".join(f"{row % 3}\n" for row in range(300)))
        before = contents(".")
        kept = gmmatch.select("pq", "labels.csv", keep=9)
        single = gmmatch.select(gmmatch.open("pq/p1.parquet"), keep=9)
        for selection, path in ((kept, "pq/p1.parquet"), (single, "pq/../pq/p1.parquet")):
            with pytest.raises(InvalidParameter, match="is the input"):
                selection.save(path)
        with pytest.raises(InvalidParameter, match="would be read with pq from then on"):
            kept.save("pq/kept.parquet")
        with pytest.raises(InvalidParameter, match="lies inside the input pq"):
            kept.materialize("pq/kept")
        suspects, leaks = gmmatch.suspects("pq", "labels.csv"), gmmatch.leaks("pq", "pq/p2.parquet")
        for found in (suspects, kept.suspects(), leaks):
            for path in ("labels.csv", "pq/p0.parquet")[found is leaks :]:
                with pytest.raises(InvalidParameter, match="is the input"):
                    found.save(path, overwrite=True)
            with pytest.raises(InvalidParameter, match="would be read with pq from then on"):
                found.save("pq/found.parquet")
            assert "read" not in found.columns()
        assert contents(".") == before

    def test_a_column_whose_name_has_a_colon(self, folder):
        text = "a: b,other\n" + "".join(f"{row % 2},0\n" for row in range(len(gmmatch.open("sh"))))
        Path("labels.csv").write_text(text)
        with pytest.raises(InvalidParameter, match=r"labels\.csv is the input"):
            gmmatch.select("sh", labels="labels.csv:a: b", keep=5, output="labels.csv", overwrite=True)
        assert Path("labels.csv").read_text() == text

    def test_a_file_that_is_no_state_is_not_removed_as_one(self, folder):
        Path("notes.txt").write_text("precious")
        np.savez("mine.npz", a=np.arange(3))
        for name in ("notes.txt", "mine.npz"):
            before = Path(name).read_bytes()
            with pytest.raises(InvalidInput, match="is not the saved state of a run"):
                gmmatch.select(ROWS, keep=5, state=name)
            assert Path(name).read_bytes() == before

    def test_tables_of_a_comparison(self, folder):
        lines = [
            "a,b,label",
            *(f"{a},{b},{label}" for (a, b), label in zip(ROWS[:, :2], LABELS, strict=True)),
        ]
        Path("compare.csv").write_text("\n".join(lines))
        before = Path("compare.csv").read_bytes()
        done = run("compare compare.csv --labels label --methods random --keep 30% --seeds 1 -o . --quiet")
        assert done.exit_code == 2, done.output
        assert Path("compare.csv").read_bytes() == before


class TestWriters:
    def test_threads_with_one_output_leave_the_file_of_one_of_them(self, tmp_path):
        target, barrier = tmp_path / "out.csv", threading.Barrier(8)

        def write(letter):
            barrier.wait()
            for _ in range(10):
                with whole_file(target) as partial, partial.open("w") as file:
                    for _ in range(20):
                        file.write(letter * 1000)
                        file.flush()

        threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdefgh"]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if target.exists():
                text = target.read_text()
                assert (len(text), len(set(text))) == (20_000, 1)
        for thread in threads:
            thread.join()
        assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]

    def test_threads_with_two_outputs_leave_those_of_one_of_them(self, tmp_path):
        targets = (tmp_path / "data", tmp_path / "mask")

        def write(letter):
            for _ in range(30):
                with whole_files(*targets) as partials:
                    for partial in partials:
                        partial.write_text(letter)

        threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert targets[0].read_text() == targets[1].read_text()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "mask"]

    def test_the_name_of_what_is_half_written_is_nobody_elses(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a container
        with whole_file(tmp_path / "out") as one, whole_file(tmp_path / "out") as other:
            assert one.parent != other.parent
            one.write_text("one")
            other.write_text("other")
        assert (tmp_path / "out").read_text() == "one"

    def test_a_folder_that_appears_meanwhile_leaves_what_was_there(self, tmp_path):
        target, mask = tmp_path / "spoilt", tmp_path / "spoilt.mask.csv"
        mask.write_text("of the other")

        def write():
            with whole_files(target, mask) as (folder, beside):
                folder.mkdir()
                (folder / "a").write_text("a")
                beside.write_text("of this one")
                target.mkdir()
                (target / "b").write_text("b")

        with pytest.raises(InvalidInput, match="cannot write"):
            write()
        assert mask.read_text() == "of the other"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["spoilt", "spoilt.mask.csv"]


class TestKilledBetweenTwoFiles:
    PROGRAM = """
import os, sys
from pathlib import Path
from gmmatch import cli
replace, done = os.replace, []
def place(source, target):
    if ".partial" not in str(target):
        if done:
            os._exit(9)
        done.append(target)
    replace(source, target)
os.replace = place
sys.argv = ["gmmatch", *sys.argv[1:]]
cli.main()
"""

    @pytest.mark.parametrize(
        ("words", "outputs"),
        [
            ("corrupt labels.npy -o noisy.npy", ("noisy.npy", "noisy.mask.npy")),
            ("corrupt photos -o spoilt", ("spoilt", "spoilt.mask.csv")),
            ("embed images.npy --encoder pixels -o v.npy", ("v.npy", "v.parquet")),
            ("suspects sh --labels labels.npy -o w.csv --fix f.csv", ("w.csv", "f.csv")),
        ],
    )
    def test_the_command_can_be_run_again(self, folder, words, outputs):
        np.save("images.npy", IMAGES)
        Path("photos").mkdir()
        from PIL import Image

        for number, image in enumerate(IMAGES[:3]):
            Image.fromarray(image).save(f"photos/{number}.png")
        done = subprocess.run(
            [sys.executable, "-c", self.PROGRAM, *words.split()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 9, done.stderr
        assert [Path(output).exists() for output in outputs] == [False, True]
        again = run(words)
        assert again.exit_code == 0, again.output
        assert all(Path(output).exists() for output in outputs)
        assert not [path for path in Path().iterdir() if path.name.endswith(".partial")]

    def test_what_was_replaced_comes_back(self, tmp_path):
        for name in ("data", "mask"):
            (tmp_path / name).write_text("before")
        program = f"""
import os
from pathlib import Path
from gmmatch.files import whole_files
replace, done = os.replace, []
def place(source, target):
    if done:
        os._exit(9)
    done.append(target)
    replace(source, target)
os.replace = place
with whole_files(Path({str(tmp_path / "data")!r}), Path({str(tmp_path / "mask")!r})) as partials:
    for partial in partials:
        partial.write_text("after")
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
        assert (tmp_path / "mask").read_text() == "after"
        remove_partials(tmp_path / "data")
        assert [(tmp_path / name).read_text() for name in ("data", "mask")] == ["before", "before"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "mask"]


class TestStates:
    @pytest.fixture
    def state(self, folder, monkeypatch):
        """Leave the state of a run that was interrupted before its outputs were written."""
        monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN_SAVES", -1.0)
        plan = gmmatch.run.Plan.of("sh", 30, {"labels": "labels.npy", "output": "kept.parquet"})
        gmmatch.run.run(plan)
        assert Path("kept.parquet.state.verdict").exists()
        return plan.state

    def test_only_outputs_of_the_run_that_is_gone_on_with_are_replaced(self, state):
        Path("kept.parquet").write_text("half, by the run that was interrupted")
        Path("page.html").write_text("mine")
        Path("wrong.csv").write_text("mine")
        words = "select sh --labels labels.npy --keep 30 -o kept.parquet --resume"
        for more in ("--report page.html", "--suspects wrong.csv"):
            done = run(f"{words} {more}")
            assert done.exit_code == 3
            assert "it exists already; --overwrite replaces it" in done.output
        assert Path("page.html").read_text() == Path("wrong.csv").read_text() == "mine"
        assert run(words).exit_code == 0
        assert len(gmmatch.load_selection("kept.parquet")) == 30
        assert not state.exists()

    def test_of_another_version_are_refused(self, state, monkeypatch):
        monkeypatch.setattr(checkpoints, "__version__", "0.9.7")
        done = run("select sh --labels labels.npy --keep 30 --resume")
        assert done.exit_code == 3
        assert f"was written by gmmatch {gmmatch.__version__}, and this is 0.9.7" in done.output

    def test_that_are_no_files_are_refused_and_not_waited_for(self, tmp_path):
        path = tmp_path / "x.state"
        os.mkfifo(path)
        signal.signal(signal.SIGALRM, lambda *_: pytest.fail("still waiting"))
        signal.alarm(20)
        try:
            for resume in (True, False):
                with pytest.raises(InvalidInput, match="is not the saved state of a run"):
                    checkpoints.FileCheckpoint(path, "rows", {}, resume=resume)
            assert checkpoints.outputs_of(path) == set()
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def test_of_0_2_are_refused(self, folder):
        np.savez("kept.parquet.state", identity=np.array("x"), skeleton=np.array("1"))
        Path("kept.parquet.state.npz").rename("kept.parquet.state.learned")
        done = run("select sh --labels labels.npy --keep 30 --resume")
        assert done.exit_code == 3
        assert "was written by gmmatch 0.2 or earlier" in done.output

    @pytest.mark.parametrize("seed", range(30))
    def test_a_flipped_bit_is_found_or_means_nothing(self, tmp_path, seed):
        saved = checkpoints.FileCheckpoint(tmp_path / "state", "rows", {}, outputs=["kept.parquet"])
        state = {"order": np.arange(400), "sums": RNG.normal(size=(20, 3)), "skeleton": np.array("{}")}
        saved.save(state)
        content = bytearray((tmp_path / "state").read_bytes())
        rng = np.random.default_rng(seed)
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        (tmp_path / "state").write_bytes(content)
        try:
            found = checkpoints.FileCheckpoint(tmp_path / "state", "rows", {}, resume=True).load()
        except InvalidInput:
            return
        assert sorted(found) == sorted(state)
        for name, values in state.items():
            np.testing.assert_array_equal(found[name], values)


class TestCaches:
    def test_a_cache_in_use_is_not_cleared(self, folder):
        keys = RNG.integers(0, 256, (50, KEY_BYTES), dtype=np.uint8)
        vectors = RNG.normal(size=(50, 6)).astype(np.float32)
        store = folder / "cache" / "vectors" / "mine"
        with VectorStore(store) as used:
            positions = used.append(keys, vectors)
            done = run("cache --clear")
            assert done.exit_code == 0
            assert "vectors/mine is in use by a run and was not removed" in done.output
            assert json.loads(run("cache --clear --json").stdout)["in_use"] == ["vectors/mine"]
            np.testing.assert_array_equal(used.gather(positions), vectors)
        assert run("cache --clear").exit_code == 0
        assert not store.exists()

    def test_a_run_outlives_the_removal_of_its_cache(self, folder, monkeypatch):
        np.save("images.npy", IMAGES)
        expected = embed_input("images.npy", Means(), cache=False).embeddings
        append = VectorStore.append

        def remove(self, *given):
            found = append(self, *given)
            shutil.rmtree(folder / "cache")
            return found

        monkeypatch.setattr(VectorStore, "append", remove)
        found = embed_input("images.npy", Means(), batch_size=64).embeddings
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("kind", ["empty", "foreign", "another length", "a folder"])
    def test_files_of_others_are_passed_over(self, folder, kind):
        np.save("images.npy", IMAGES)
        expected = np.array(embed_input("images.npy", Means()).embeddings)
        (store,) = (folder / "cache" / "vectors").iterdir()
        vectors = {
            "empty": b"", "foreign": RNG.bytes(4000), "another length": np.ones((9, 5), "<f4").tobytes(),
            "a folder": None,
        }[kind]  # fmt: skip
        for name in ("00000000000000000001-aaaaaaaa-5", "99999999999999999999-aaaaaaaa-5"):
            if vectors is None:
                (store / f"{name}.vectors").mkdir()
                (store / f"{name}.keys").mkdir()
            else:
                (store / f"{name}.vectors").write_bytes(vectors)
                (store / f"{name}.keys").write_bytes(RNG.bytes(20 * 9) if vectors else b"")
        again = embed_input("images.npy", Means())
        assert again.encoded == 0
        np.testing.assert_array_equal(again.embeddings, expected)

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"accuracy": 1}', b"\xff"])
    def test_results_of_experiments_that_are_damaged_are_made_again(self, folder, content):
        np.save("rows.npy", ROWS)
        words = "compare rows.npy --labels labels.npy --methods random --keep 30% --seeds 1 --workers 1"
        first = json.loads(run(f"{words} --quiet --json").stdout)
        (cell,) = Path("out/compare/cells").glob("*.json")
        cell.write_bytes(content)
        for kept in Path("out/compare/cache").rglob("*.npz"):
            np.savez(kept, other=np.arange(3))
        again = json.loads(run(f"{words} --quiet --json").stdout)
        assert again["new"] == 1
        assert again["results"][0]["accuracy"] == first["results"][0]["accuracy"]


def test_locks_that_there_are_not_do_no_harm(tmp_path, monkeypatch):
    def refuse(*given):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    old, new = (tmp_path / f".out.{digit * 16}.partial" for digit in "ab")
    for left in (old, new):
        left.mkdir()
    os.utime(old, (time.time() - 2e5,) * 2)
    with whole_file(tmp_path / "out") as partial:
        partial.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, "out"]


def test_what_killed_runs_left_anywhere_in_a_folder_is_removed_and_what_is_written_stays(tmp_path):
    inside = tmp_path / "cache" / "picks"
    left = inside / ".order.npz.0123456789abcdef.partial"
    left.mkdir(parents=True)
    (left / "0.order.npz").write_bytes(b"half")
    own = inside / ".mine.partial"  # not named by us
    own.mkdir()
    with whole_file(inside / "other.npz") as partial:
        partial.write_bytes(b"all of it")
        remove_partials_in(tmp_path)
        assert partial.exists()
    assert sorted(path.name for path in inside.iterdir()) == [".mine.partial", "other.npz"]
