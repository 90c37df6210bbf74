"""Photos that are nearly the same as held-out ones."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.aims import photos as module
from gmmatch.aims.photos import find_alike_photos
from gmmatch.cli import app
from gmmatch.data import Dataset, Items, Unreadable

PIL = pytest.importorskip("PIL.Image")
Pixels = npt.NDArray[np.uint8]


def items(contents: list[Any]) -> Items:
    return Items("image", len(contents), lambda start, stop: contents[start:stop])


def made_up(count: int, seed: int, side: int = 64) -> list[Pixels]:
    """Return photos of a few blurred spots."""
    rng = np.random.default_rng(seed)
    spots = rng.integers(0, 256, (count, 6, 6, 3), dtype=np.uint8)
    return [np.asarray(PIL.fromarray(own).resize((side, side), PIL.Resampling.BICUBIC)) for own in spots]


def packed(photo: Any, **options: Any) -> bytes:
    image = photo if isinstance(photo, PIL.Image) else PIL.fromarray(photo)
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def cropped(photo: Pixels, left: int, top: int, right: int, bottom: int) -> Pixels:
    height, width = photo.shape[:2]
    image = PIL.fromarray(photo).crop((left, top, width - right, height - bottom))
    return np.asarray(image.resize((width, height), PIL.Resampling.BICUBIC))


EDITS = {
    "recompressed": lambda photo: packed(photo, format="JPEG", quality=40),
    "smaller": lambda photo: np.asarray(PIL.fromarray(photo).resize((24, 24))),
    "stretched": lambda photo: np.asarray(PIL.fromarray(photo).resize((90, 70))),
    "a corner of 7/8": lambda photo: cropped(photo, 8, 8, 0, 0),
    "another corner": lambda photo: cropped(photo, 0, 8, 8, 0),
    "the middle": lambda photo: cropped(photo, 4, 4, 4, 4),
    "one side": lambda photo: cropped(photo, 0, 0, 7, 0),
    "cropped and recompressed": lambda photo: packed(cropped(photo, 2, 5, 4, 1), format="JPEG", quality=60),
    "grey": lambda photo: np.asarray(PIL.fromarray(photo).convert("L")),
    "opaque": lambda photo: np.dstack([photo, np.full(photo.shape[:2], 255, np.uint8)]),
    "turned by its camera": lambda photo: packed(
        PIL.fromarray(np.rot90(photo).copy()), format="PNG", exif=turned()
    ),
}


def turned() -> Any:
    exif = PIL.Exif()
    exif[0x0112] = 6
    return exif


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_photo_is_found_with_its_own(edit: str) -> None:
    photos, test = made_up(60, 0), made_up(40, 1)
    photos[10:50] = [EDITS[edit](photo) for photo in test]
    found = find_alike_photos(items(photos), items(test))
    assert found.train.tolist() == list(range(10, 50))
    assert found.test.tolist() == list(range(40))
    assert (found.likeness >= 0.97).all()
    # Whichever of both was edited.
    back = find_alike_photos(items(test), items(photos))
    assert back.train.tolist() == list(range(40))
    assert back.test.tolist() == list(range(10, 50))


def test_other_photos_are_not_found() -> None:
    test = made_up(40, 1)
    assert not len(find_alike_photos(items(made_up(300, 0)), items(test)).train)
    for changed in (
        [photo[:, ::-1] for photo in test],  # mirrored
        [np.rot90(photo).copy() for photo in test],
        [255 - photo for photo in test],
        [cropped(photo, 20, 20, 0, 0) for photo in test],
    ):
        assert not len(find_alike_photos(items(changed), items(test)).train)


def test_flat_and_unreadable_photos_are_like_none() -> None:
    flat = [np.full((20, 20, 3), value, np.uint8) for value in (0, 90, 255)]
    bad = [Unreadable("gone"), b"no image", b"", np.zeros((3, 4, 5), np.uint8)]
    clear = np.zeros((20, 20, 4), np.uint8)
    clear[5:9, 5:9, :3] = 200  # a pattern that nobody sees
    contents = [*flat, *bad, clear]
    assert not len(find_alike_photos(items(contents), items(contents)).train)
    photo = made_up(1, 0)[0]
    assert find_alike_photos(items([*contents, photo]), items([*bad, photo])).test.tolist() == [4]
    for one, other in (([photo], []), ([], [photo]), ([], [])):
        assert not len(find_alike_photos(items(one), items(other)).train)


def test_where_all_are_alike_copies_must_be_more_alike() -> None:
    from sklearn.datasets import load_digits

    digits = [np.uint8(digit * 15) for digit in load_digits().images[:600]]
    assert len(find_alike_photos(items(digits[:300]), items(digits[300:])).train) <= 1
    found = find_alike_photos(items(digits[:300]), items(digits[200:]))
    assert np.isin(np.arange(200, 300), found.train).all()


def test_chunks_and_order_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    photos, test = made_up(80, 0), made_up(50, 1)
    photos[:30] = [cropped(photo, 3, 3, 1, 1) for photo in test[:30]]
    first = find_alike_photos(items(photos), items(test))
    assert len(first.train) == 30
    back = find_alike_photos(items(photos[::-1]), items(test[::-1]))
    assert (79 - back.train[::-1] == first.train).all()
    assert (49 - back.test[::-1] == first.test).all()
    for name, value in (("_AT_ONCE", 7), ("_PAIRS", 300), ("_BLOCK", 11)):
        monkeypatch.setattr(module, name, value)
    again = find_alike_photos(items(photos), items(test))
    assert (again.train == first.train).all()
    assert (again.test == first.test).all()
    assert np.allclose(again.likeness, first.likeness)


def write(folder: Path, photos: list[Any]) -> Path:
    folder.mkdir()
    for row, photo in enumerate(photos):
        content = photo if isinstance(photo, bytes) else packed(photo, format="PNG")
        (folder / f"{row:03d}.png").write_bytes(content)
    return folder


def test_held_out_photos_are_kept_out_of_folders(tmp_path: Path) -> None:
    photos, test = made_up(60, 0), made_up(20, 1)
    photos[:20] = [packed(cropped(photo, 5, 0, 0, 3), format="JPEG", quality=50) for photo in test]
    photos[30] = test[7]
    train, held_out = write(tmp_path / "train", photos), write(tmp_path / "test", test)
    leaks = gmmatch.leaks(train, held_out, encoder="pixels")
    assert leaks.train.tolist() == [*range(20), 30]
    assert leaks.test.tolist() == [*range(20), 7]
    assert leaks.by_photo == 20
    assert np.isnan(leaks.correlation[-1])
    assert leaks.distance[-1] == 0
    assert leaks.to_pandas().columns.tolist() == ["train", "test", "distance", "correlation"]
    kept = gmmatch.select(train, keep=1.0, holdout=held_out, encoder="pixels", guard="off")
    assert sorted(kept.indices.tolist()) == sorted(set(range(20, 60)) - {30})
    assert kept.info.leaks is not None
    assert kept.info.leaks["by_photo"] == 20
    assert "of nearly the same photo: 20" in str(kept.info.hint)
    command = ["leaks", str(train), str(held_out), "--encoder", "pixels"]
    ran = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(ran.stdout)["by_photo"] == 20
    ran = CliRunner().invoke(app, command)
    assert "of nearly the same photo: 20" in ran.stdout


def test_photos_are_compared_with_photos_alone() -> None:
    photos = made_up(50, 0)
    rows = np.random.default_rng(0).normal(size=(100, 8))
    data = Dataset(rows[:50], "photos", "list", content=items(photos))
    others = Dataset(rows[50:], "others", "list", content=items(photos))
    assert len(gmmatch.leaks(data, others)) == 50
    assert not len(gmmatch.leaks(data, rows[50:]))
    assert not len(gmmatch.leaks(rows[:50], others))


def test_bad_photos_are_left_out(tmp_path: Path) -> None:
    photos, test = made_up(30, 0), made_up(10, 1)
    photos[3], photos[10:20] = b"no image", [EDITS["recompressed"](photo) for photo in test]
    train, held_out = write(tmp_path / "train", photos), write(tmp_path / "test", test)
    found = gmmatch.leaks(
        gmmatch.open(train, encoder="pixels", on_bad_rows="drop"),
        gmmatch.open(held_out, encoder="pixels"),
    )
    assert found.train.tolist() == list(range(10, 20))
    assert found.test.tolist() == list(range(10))


def test_bad_photos_of_both_sides_are_left_out_and_pairs_have_ids(tmp_path: Path) -> None:
    photos = made_up(30, 0)
    for name, chosen in (("train", photos), ("test", photos[:3])):
        (tmp_path / name / "a").mkdir(parents=True)
        for number, photo in enumerate(chosen):
            (tmp_path / name / "a" / f"{name}-{number:02}.png").write_bytes(packed(photo, format="PNG"))
        (tmp_path / name / "a" / "000.png").write_bytes(b"no photo")
    names = [str(tmp_path / name) for name in ("train", "test")]
    refused = CliRunner().invoke(app, ["leaks", *names, "--encoder", "pixels"])
    assert refused.exit_code == 3
    assert "--on-bad-rows drop" in refused.output
    found = gmmatch.leaks(*names, encoder="pixels", on_bad_rows="drop")
    assert (found.train.tolist(), found.test.tolist()) == ([1, 2, 3], [1, 2, 3])
    output = tmp_path / "leaks.csv"
    drop = ["--encoder", "pixels", "--on-bad-rows", "drop"]
    assert CliRunner().invoke(app, ["leaks", *names, *drop, "-o", str(output)]).exit_code == 0
    header, first = output.read_text().splitlines()[:2]
    assert header.endswith("train_id,test_id")
    assert first.endswith("a/train-00.png,a/test-00.png")
    for aim in ("holdout", "match-to"):
        asked = ["select", names[0], f"--{aim}", names[1], "--keep", "5", "-o", str(tmp_path / f"{aim}.csv")]
        done = CliRunner().invoke(app, [*asked, *drop])
        assert done.exit_code == 0, done.output
    assert (
        "3 rows are near-duplicates of 3 held-out rows"
        in CliRunner()
        .invoke(
            app, [*asked[:2], "--holdout", names[1], "--keep", "5", "-o", str(tmp_path / "again.csv"), *drop]
        )
        .output
    )
