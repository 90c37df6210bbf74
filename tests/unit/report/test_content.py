from __future__ import annotations

import base64
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import gmmatch
from gmmatch.data import Dataset, Unreadable, open_dataset
from gmmatch.errors import InvalidInput
from gmmatch.reporting import Content, open_content, summarise
from gmmatch.reporting import content as contents
from gmmatch.reporting.content import excerpt, thumbnail


def decoded(uri):
    head, _, body = uri.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


def test_small_images_are_kept_pixel_by_pixel():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    assert (decoded(thumbnail(pixels)) == pixels).all()
    colours = np.random.default_rng(0).integers(0, 256, (32, 20, 3), dtype=np.uint8)
    assert (decoded(thumbnail(colours)) == colours).all()


def test_large_images_become_small_squares_that_look_alike():
    pixels = np.zeros((300, 500, 3), np.uint8)
    pixels[:, :250] = [200, 30, 40]
    found = decoded(thumbnail(pixels)).astype(int)
    assert found.shape == (96, 96, 3)
    assert np.abs(found[48, 10] - [200, 30, 40]).max() < 12
    assert found[48, 90].max() < 12


def test_what_cannot_be_read_has_no_picture():
    assert thumbnail(b"not an image") is None
    assert thumbnail(b"") is None
    assert thumbnail(Unreadable("gone")) is None
    assert thumbnail(None) is None
    assert excerpt(Unreadable("gone")) is None


def test_previews_stop_where_there_is_no_more_room(monkeypatch):
    monkeypatch.setitem(contents._ROOM, "text", 100)
    found = open_dataset([f"text {row:5d}" for row in range(500)], holds="text")
    shown = Content(found).previews(np.arange(499, -1, -1))
    assert shown[0] == "text   499"
    assert 9 <= len(shown) <= 12


@pytest.fixture
def photos(tmp_path):
    for row in range(6):
        folder = tmp_path / "photos" / ("even" if row % 2 == 0 else "odd")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (40 * row, 0, 0)).save(folder / f"photo{row}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize("form", ["{folder}/photo{row}.png", "photo{row}.png", "photo{row}"])
def test_images_belong_to_rows_by_name(photos, form):
    order = [3, 0, 5, 1]
    ids = np.array([form.format(folder="odd" if row % 2 else "even", row=row) for row in order])
    found = open_content(photos, "image", 4, ids)
    shown = found.previews(np.arange(4))
    assert [int(decoded(shown[at])[0, 0, 0]) for at in range(4)] == [40 * row for row in order]


def test_images_belong_to_rows_by_order_where_names_say_nothing(photos):
    shown = open_content(photos, "image", 6, np.array(list("abcdef"))).previews(np.arange(6))
    assert [int(decoded(shown[at])[0, 0, 0]) // 40 for at in range(6)] == [0, 2, 4, 1, 3, 5]
    with pytest.raises(InvalidInput, match="6 images for 7 rows, and the rows' ids are not their names"):
        open_content(photos, "image", 7, None)


def test_texts_come_from_a_column(tmp_path):
    (tmp_path / "tickets.csv").write_text("number,body\n1,first\n2,second\n3,third\n")
    found = open_content(tmp_path / "tickets.csv", "text", 3, None, text="body")
    assert found.previews(np.array([2, 0])) == {0: "third", 1: "first"}


def test_a_report_shows_its_galleries_before_others(monkeypatch, made):
    selection, source = made
    monkeypatch.setitem(contents._ROOM, "text", 1500)
    texts = open_dataset([f"this is row {row:4d}" for row in range(400)], holds="text")
    report = summarise(selection, source, content=Content(texts))
    assert report.content_kind == "text"
    for at, text in report.content.items():
        assert text == f"this is row {report.map.row[at]:4d}"
    for gallery in report.galleries:
        assert set(gallery.rows[:20]) <= set(report.content)


def test_encoded_rows_that_were_left_out_do_not_shift_the_images(tmp_path):
    (tmp_path / "in").mkdir()
    for row in range(12):
        Image.new("L", (8, 8), 20 * row).save(tmp_path / "in" / f"{row:02d}.png")
    (tmp_path / "in" / "03.png").write_bytes(b"broken")
    source = gmmatch.open(tmp_path / "in", encoder="pixels", on_bad_rows="drop")
    selection = gmmatch.select(source, keep=5, on_bad_rows="drop")
    content = open_content(tmp_path / "in", "image", len(source), None)
    report = summarise(selection, Dataset(source.rows, "in", "encoded", ids=source.ids), content=content)
    assert report.glance.usable == 11
    for at, row in enumerate(report.map.row):
        assert int(decoded(report.content[at])[0, 0]) == 20 * row


def test_rows_of_a_table_are_shown_by_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{n},{value:.2f},{'ab'[n % 2]}" for n, value in enumerate(rng.normal(size=60))]
    (tmp_path / "table.csv").write_text("\n".join(["size,weight,kind", *lines]) + "\n")
    data = gmmatch.open(tmp_path / "table.csv", labels="kind")
    kept = gmmatch.select(data, keep=10)
    page = kept.report(tmp_path / "page.html")
    assert page.content_kind == "text"
    first = page.map.row.index(int(kept.indices[0]))
    assert page.content[first] == " · ".join(
        f"{name} {cell.removesuffix('0') if name == 'weight' else cell}"
        for name, cell in zip(("size", "weight", "kind"), lines[kept.indices[0]].split(","), strict=True)
    )
    assert "size 0" in data._repr_html_()


def test_lists_and_very_large_tables_are_not_shown(tmp_path, monkeypatch):
    table = pa.table({"vector": list(np.random.default_rng(0).normal(size=(20, 4))), "source": ["web"] * 20})
    pq.write_table(table, tmp_path / "rows.parquet")
    data = open_dataset(tmp_path / "rows.parquet")
    assert contents.table_content(data).previews(np.arange(2)) == {0: "source web", 1: "source web"}
    asked = []
    spied = data.replace(read_column=lambda name, *span: asked.append(name) or data.read_column(name, *span))
    contents.table_content(spied).previews(np.arange(2))
    assert set(asked) == {"source"}
    assert contents.table_content(data.replace(files=("s3://bucket/rows.parquet",))) is None
    monkeypatch.setattr(contents, "_MOST_CELLS", 10)
    assert contents.table_content(data) is None
    assert contents.table_content(open_dataset(np.eye(3))) is None
