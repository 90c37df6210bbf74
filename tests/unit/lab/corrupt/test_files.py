"""Image folders, array files and label files, and the command that corrupts them."""

from __future__ import annotations

import csv
import json
import os
import signal
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from gmmatch import corrupt as library
from gmmatch.cli.lab.corrupt import corrupt
from gmmatch.errors import GmmatchError, InvalidInput, InvalidParameter
from gmmatch.lab.corrupt.folder import corrupt_folder
from gmmatch.lab.corrupt.preview import sample_image
from gmmatch.progress import listen

app = typer.Typer(add_completion=False)
app.command()(corrupt)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def files_below(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def pictures(tmp_path) -> Path:
    """Pictures of all the kinds that folders hold, one of them blank, and a file that is no picture."""
    folder = tmp_path / "pictures"
    (folder / "cat").mkdir(parents=True)
    (folder / "dog").mkdir()
    photo = Image.fromarray(sample_image(40))
    for number in range(6):
        photo.rotate(10 * number).save(folder / "cat" / f"{number}.png")
        photo.rotate(-10 * number).save(folder / "dog" / f"{number}.JPG", format="JPEG", quality=90)
    photo.convert("L").save(folder / "gray.png")
    photo.convert("P").save(folder / "palette.png")
    photo.convert("CMYK").save(folder / "print.jpg")
    transparent = photo.convert("RGBA")
    transparent.putalpha(100)
    transparent.save(folder / "transparent.png")
    Image.new("1", (20, 30)).save(folder / "blank.bmp")
    exif = Image.Exif()
    exif[0x0112] = 6
    photo.save(folder / "turned.jpg", exif=exif)
    (folder / "readme.txt").write_text("not a picture")
    return folder


def test_a_folder_is_copied_and_the_share_of_its_pictures_damaged(pictures, tmp_path):
    before = files_below(pictures)
    result = run(pictures, "--share", "50%", "-o", tmp_path / "out", "--json")
    facts = json.loads(result.stdout)
    after = files_below(tmp_path / "out")
    with (tmp_path / "out.mask.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert files_below(pictures) == before
    assert after.keys() == before.keys()
    assert (facts["rows"], facts["corrupted"], facts["holds"]) == (18, 9, "images")
    assert sum(facts["kinds"].values()) == 9
    assert [row["file"] for row in rows] == sorted(before.keys() - {"readme.txt"})
    for row in rows:
        assert (after[row["file"]] != before[row["file"]]) == (row["corrupted"] == "1") == bool(row["kind"])
    assert after["readme.txt"] == before["readme.txt"]
    run(pictures, "--share", "50%", "-o", tmp_path / "again")
    assert files_below(tmp_path / "again") == after


def test_the_seed_changes_the_damage_and_not_only_the_choice(pictures, tmp_path):
    for seed in (0, 1):
        corrupt_folder(pictures, tmp_path / f"out{seed}", share=1.0, kinds="gaussian_noise", rng=seed)
    first, second = (files_below(tmp_path / f"out{seed}") for seed in (0, 1))
    assert all(first[name] != second[name] for name in first if name != "readme.txt")
    images = [np.asarray(Image.open(tmp_path / "out0" / "cat" / f"{number}.png")) for number in (0, 1)]
    noise = [
        image.astype(float) - np.asarray(Image.open(pictures / "cat" / f"{number}.png"))
        for number, image in enumerate(images)
    ]
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.2


def test_damaged_pictures_keep_format_size_and_what_is_not_colour(pictures, tmp_path):
    corrupt_folder(pictures, tmp_path / "out", share=1.0, kinds="occlusion")
    for path in pictures.rglob("*.*"):
        if path.suffix == ".txt":
            continue
        with Image.open(path) as old, Image.open(tmp_path / "out" / path.relative_to(pictures)) as new:
            assert (new.format, new.size) == (old.format, old.size)
            a, b = (np.asarray(image.convert("RGB"), dtype=int) for image in (old, new))
            assert np.abs(a - b).max() > 50
            assert (np.abs(a - b).max(axis=2) < 40).mean() > 0.5
    with Image.open(tmp_path / "out" / "transparent.png") as image:
        assert image.getchannel("A").getextrema() == (100, 100)
    with Image.open(tmp_path / "out" / "turned.jpg") as image:
        assert image.getexif()[0x0112] == 6
    with Image.open(tmp_path / "out" / "gray.png") as image:
        assert image.mode == "L"


def test_grey_of_sixteen_bits_is_damaged_as_grey_of_eight(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    grey = np.asarray(Image.fromarray(sample_image(40)).convert("L"))
    Image.fromarray(grey.astype(np.uint16) * 257).save(folder / "deep.png")
    corrupt_folder(folder, tmp_path / "out", share=1.0, kinds="occlusion")
    with Image.open(tmp_path / "out" / "deep.png") as image:
        assert image.mode == "L"
        away = np.abs(np.asarray(image).astype(int) - grey)
    assert away.max() > 50
    assert (away < 2).mean() > 0.5


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "bad.png").write_bytes(b"not a png"), "cannot read the image .*bad.png"),
        (
            lambda folder: Image.new("F", (9, 9)).save(folder / "deep.tif"),
            "deep.tif has pixels of mode F",
        ),
        (lambda folder: Image.new("L", (3, 3)).save(folder / "dot.png"), "dot.png: .*at least 5 pixels"),
        (lambda folder: (folder / "link").symlink_to(folder / "cat"), "link is a link to a folder"),
    ],
)
def test_a_folder_that_cannot_be_damaged_leaves_nothing_behind(pictures, tmp_path, spoil, message):
    spoil(pictures)
    with pytest.raises(InvalidInput, match=message):
        run(pictures, "--share", "100%", "-o", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]


def test_an_interruption_leaves_nothing_behind(pictures, tmp_path):
    class Stopped(BaseException):
        pass

    @contextmanager
    def stop_after_three(what, total):
        done = []

        def advance(count):
            done.append(count)
            if len(done) == 3:
                raise Stopped

        yield advance

    with pytest.raises(Stopped), listen(stop_after_three):
        corrupt_folder(pictures, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]


def test_folders_are_never_written_over_or_into(pictures, tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("data")
    for output in (tmp_path / "full", pictures, pictures / "below"):
        with pytest.raises((InvalidInput, InvalidParameter), match="the output"):
            run(pictures, "-o", output)
    monkeypatch.chdir(tmp_path / "full")
    (tmp_path / "full" / "precious").unlink()
    with pytest.raises(InvalidInput, match="give it a name"):
        run(pictures, "-o", ".")
    (tmp_path / "empty").mkdir()
    run(pictures, "-o", tmp_path / "empty")
    assert files_below(tmp_path / "empty")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidInput, match="holds no images"):
        run(tmp_path / "nothing", "-o", tmp_path / "x")


def test_arrays_of_images_embeddings_and_labels(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 16, 16, 3), dtype=np.uint8)
    rows, labels = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    for name, values in (("images", images), ("rows", rows), ("labels", labels)):
        np.save(tmp_path / f"{name}.npy", values)
        assert run(tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}2.npy", "--seed", 3).exit_code == 0
    expected = {
        "images": library.corrupt_images(images, rng=3),
        "rows": library.contaminate(rows, rng=3),
        "labels": library.corrupt_labels(labels, rng=3),
    }
    for name, (corrupted, mask) in expected.items():
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}2.npy"), corrupted)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}2.mask.npy"), mask)


def test_kinds_that_need_a_second_file(tmp_path):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    matrix = np.full((3, 3), 0.25) + 0.25 * np.eye(3)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "labels.npy", labels)
    np.savetxt(tmp_path / "matrix.csv", matrix, delimiter=",")
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    out = tmp_path / "out.npy"
    run(tmp_path / "rows.npy", "-k", "other-class", "--labels", tmp_path / "labels.txt", "-o", out)
    np.testing.assert_array_equal(
        np.load(out), library.contaminate(rows, kind="other-class", labels=labels)[0]
    )
    run(
        tmp_path / "labels.npy",
        "-k",
        "instance",
        "--features",
        tmp_path / "rows.npy",
        "-o",
        out,
        "--overwrite",
    )
    mislabelled, _ = library.corrupt_labels(labels, kind="instance", features=rows)
    np.testing.assert_array_equal(np.load(out), mislabelled)
    run(
        tmp_path / "labels.npy", "-k", "matrix", "--matrix", tmp_path / "matrix.csv", "-o", out, "--overwrite"
    )
    assert np.load(tmp_path / "out.mask.npy").sum() == 30
    run(tmp_path / "rows.npy", "--distance", "9", "-o", out, "--overwrite")
    np.testing.assert_array_equal(np.load(out), library.contaminate(rows, distance=9)[0])


def test_one_array_of_an_archive_is_changed_and_the_others_kept(tmp_path):
    rows, labels = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 5
    np.savez(tmp_path / "data.npz", rows=rows, labels=labels)
    run(tmp_path / "data.npz", "--array", "labels", "-k", "pair", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["rows"], rows)
        wrong = out["labels"] != labels
    assert wrong.sum() == 10
    np.testing.assert_array_equal(np.load(tmp_path / "out.mask.npy"), wrong)
    with pytest.raises(InvalidInput, match="holds the arrays rows, labels; name one"):
        run(tmp_path / "data.npz", "-o", tmp_path / "x.npz")
    with pytest.raises(InvalidInput, match=r"there is no 'label'.*did you mean 'labels'"):
        run(tmp_path / "data.npz", "--array", "label", "-o", tmp_path / "x.npz")


def test_arrays_of_an_archive_may_have_any_name(tmp_path):
    arrays = {"file": np.arange(20) % 4, "allow_pickle": np.eye(2), "folder/x": np.array(["a", "b"])}
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values)
    run(tmp_path / "odd.npz", "--array", "file", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert set(out.files) == set(arrays)
        assert (out["file"] != arrays["file"]).sum() == 4
        np.testing.assert_array_equal(out["folder/x"], arrays["folder/x"])


def test_a_table_changes_in_its_label_cells_alone(tmp_path):
    lines = ["\ufeffid,label,note\r\n"]
    for number in range(40):
        label = "owl" if number % 4 == 0 else '"cat, grey"'
        lines.append(f'{number:03d},{label},"a ""quoted""\n text"\r\n')
    source, target = tmp_path / "labels.csv", tmp_path / "noisy.csv"
    source.write_bytes("".join(lines).encode())
    assert "corrupted 10 of 40 labels" in run(source, "--share", "0.25", "-o", target).stderr
    with (tmp_path / "noisy.mask.csv").open() as file:
        mask = [row["corrupted"] == "1" for row in csv.DictReader(file)]
    written = target.read_bytes().decode()
    swapped = [
        (line.replace('"cat, grey"', "owl") if "cat" in line else line.replace("owl", '"cat, grey"'))
        if wrong
        else line
        for line, wrong in zip(lines, [False, *mask], strict=True)
    ]
    assert sum(mask) == 10
    assert written == "".join(swapped)


def test_numbers_in_text_are_classes_in_their_order(tmp_path):
    source, target = tmp_path / "labels.txt", tmp_path / "noisy.txt"
    source.write_text("\n".join(str(number % 12) for number in range(24)))
    run(source, "-k", "pair", "--share", "100%", "-o", target)
    assert target.read_text() == "\n".join(str((number + 1) % 12) for number in range(24))
    assert (tmp_path / "noisy.mask.txt").read_text() == "1\n" * 24


@pytest.mark.parametrize(
    ("content", "column", "labels"),
    [
        ("1\n2\n\n\n", None, [1, 2]),
        ("label\n1\n2\n", None, [1, 2]),
        ("kind\n1\n2\n", None, [1, 2]),
        ("a\nb\n", None, ["a", "b"]),
        ("x,y\n5,1\n6,2\n", None, [1, 2]),
        ("x,kind\n5,a\n6,b\n", "kind", ["a", "b"]),
    ],
)
def test_the_label_column_is_found(tmp_path, content, column, labels):
    from gmmatch.lab.corrupt.files import read_labels

    (tmp_path / "labels.csv").write_text(content)
    assert read_labels(tmp_path / "labels.csv", column).values.tolist() == labels


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.csv", b"", "holds no labels"),
        ("l.csv", b"label\n", "holds no labels"),
        ("l.csv", b"a,b\n1,2\n", "which column .* It has: a, b"),
        ("l.csv", b"x,label\n1,2\n3\n", "row 1 of .*: 1 values for 2 columns"),
        ("l.txt", b"1\n\n2\n", r"no label in 1 of 3 rows \(first: 1\)"),
        ("l.txt", b"\xff\xfe1", "is UTF-16; expected UTF-8"),
        ("l.csv", b'x,label\n1,"2\n', "quotes are not closed"),
        ("l.txt", b"\xe91\n", "row 0 of .* not UTF-8"),
        ("l.npy", b"junk", "not a readable .npy file"),
        ("l.npz", b"PK junk", "not a readable .npz archive"),
        ("l.doc", b"", "cannot tell what"),
        ("l.txt", b"1\n" * 10, "one class only"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message) as caught:
        run(tmp_path / name, "-o", tmp_path / f"out{Path(name).suffix}")
    assert name in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], InvalidParameter, "nothing to write"),
        (["-o", "x.npy"], InvalidParameter, "needs an INPUT"),
        (["rows.npy"], InvalidParameter, "nothing to write"),
        (["none.npy", "-o", "x.npy"], InvalidInput, "none.npy does not exist"),
        (["rows.npy", "-o", "x.csv"], InvalidParameter, "must end in .npy"),
        (["rows.npy", "-o", "rows.npy"], InvalidParameter, "rows.npy is the input"),
        (["a.mask.npy", "-o", "a.npy"], InvalidParameter, "a.mask.npy is the input"),
        (["rows.npy", "-o", "none/x.npy"], InvalidInput, "the folder none does not exist"),
        (["rows.npy", "-o", "x.npy", "--share", "50%"], InvalidParameter, r"\[0, 0.5\)"),
        (["rows.npy", "-o", "x.npy", "--share", "many"], InvalidParameter, "as 20% or 0.2; got 'many'"),
        (["rows.npy", "-o", "x.npy", "--share", "nan"], InvalidParameter, "between 0% and 100%"),
        (["rows.npy", "-o", "x.npy", "--seed", "-1"], InvalidParameter, "--seed"),
        (["rows.npy", "-o", "x.npy", "--kind", "outlier"], InvalidParameter, "did you mean 'outliers'"),
        (["rows.npy", "-o", "x.npy", "-k", "outliers", "-k", "adversary"], InvalidParameter, "one --kind"),
        (["rows.npy", "-o", "x.npy", "-k", "other-class"], InvalidParameter, "needs the parameter 'labels'"),
        (["rows.npy", "-o", "x.npy", "--matrix", "rows.npy"], InvalidParameter, "does not apply"),
        (["rows.npy", "-o", "x.npy", "--column", "a"], InvalidParameter, "--column"),
        (["rows.npy", "-o", "x.npy", "--array", "a"], InvalidParameter, "--array"),
        (["rows.npy", "-o", "x.npy", "-k", "fog"], InvalidInput, "rows.npy: images must"),
        (["labels.txt", "-o", "x.txt", "-k", "fog"], InvalidParameter, "is a label file"),
        (["rows.npy", "--preview", "x.png"], InvalidInput, "--preview shows images"),
        (["--preview", "x.txt"], InvalidParameter, "must end in .png"),
    ],
)
def test_wrong_usage_is_refused_and_writes_nothing(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    for name in ("rows.npy", "a.mask.npy"):
        np.save(name, np.random.default_rng(0).normal(size=(20, 3)))
    Path("labels.txt").write_text("0\n1\n")
    with pytest.raises(error, match=message) as caught:
        run(*arguments)
    assert isinstance(caught.value, GmmatchError)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npy", "a.mask.npy", "labels.txt"}


def test_the_preview_shows_the_first_image_or_a_sample(pictures, tmp_path):
    assert run("--preview", tmp_path / "sample.png").exit_code == 0
    assert run(pictures, "--preview", tmp_path / "first.png", "-q").stderr == ""
    np.save(tmp_path / "images.npy", sample_image(30)[None])
    facts = json.loads(run(tmp_path / "images.npy", "--preview", tmp_path / "array.webp", "--json").stdout)
    assert facts["preview"] == str(tmp_path / "array.webp")
    for name in ("sample.png", "first.png", "array.webp"):
        with Image.open(tmp_path / name) as page:
            assert page.width > 400


def test_labels_names_the_column_of_a_table_as_everywhere(tmp_path):
    table = tmp_path / "tickets.csv"
    table.write_text("body,intent\n" + "".join(f"text {row},{'ab'[row % 2]}\n" for row in range(40)))
    for option in ("--labels", "--column"):
        assert run(table, option, "intent", "-o", tmp_path / f"{option}.csv").exit_code == 0
    assert (tmp_path / "--labels.csv").read_text() == (tmp_path / "--column.csv").read_text()
    assert (tmp_path / "--labels.csv").read_text() != table.read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("option", ["source", "--labels", "--features", "--matrix"])
@pytest.mark.parametrize("ending", [".npy", ".csv"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, monkeypatch, option, ending):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).normal(size=(20, 3)))
    os.mkfifo(f"pipe{ending}")
    given = [f"pipe{ending}"] if option == "source" else ["rows.npy", option, f"pipe{ending}"]
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for the pipe"))
    signal.alarm(20)
    try:
        with pytest.raises(InvalidInput, match="is a pipe, a socket or a device"):
            run(*given, "-o", f"spoilt{ending}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
