from __future__ import annotations

import dataclasses
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import gmmatch
from gmmatch.data import Dataset, open_dataset
from gmmatch.errors import InvalidInput, InvalidParameter, MissingExtra
from gmmatch.reporting import Content, check_report, render, summarise, write_report
from gmmatch.reporting.page import SCRIPTS, embed, plot_library

pytest.importorskip("bokeh")

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"'><svg onload=alert(1)>",
    "<!--<script>",
    "{{ 7 * 7 }}",
    "line\u2028separator",
    "&lt;b&gt;",
    "‮right to left",
    "日本語",
]


class Elements(HTMLParser):
    """Gather the elements of a page, their attributes and the texts of scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.text = [], [], []
        self.inside = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1][1] += data
        else:
            self.text.append(data)


@pytest.fixture
def hostile():
    rng = np.random.default_rng(0)
    n_rows = 40 * len(HOSTILE)
    labels = np.array(HOSTILE)[np.arange(n_rows) % len(HOSTILE)]
    rows = rng.normal(size=(n_rows, 6)) + np.arange(n_rows)[:, None] % len(HOSTILE)
    ids = np.array([f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(n_rows)])
    selection = gmmatch.select(rows, keep=0.2, labels=labels)
    source = Dataset(rows, HOSTILE[1], "array", labels=labels, ids=ids)
    return summarise(
        selection, source, content=Content(open_dataset(ids.tolist(), holds="text")), command=HOSTILE[0]
    )


def test_names_and_ids_reach_the_page_as_text_alone(hostile):
    page = render(hostile)
    found = Elements(page)
    assert [attributes.get("type") for attributes, _ in found.scripts] == ["application/json", None, None]
    assert "img" not in {tag for tag, _ in found.tags}
    assert not [tag for tag, attributes in found.tags if any(name.startswith("on") for name in attributes)]
    text = " ".join(found.text)
    assert HOSTILE[0] in text
    assert HOSTILE[1] in text
    data = json.loads(found.scripts[0][1])
    assert set(data["classes"]["names"]) == set(HOSTILE)
    assert sorted(data["map"]["id"]) == sorted(hostile.map.id)
    assert data["content"] == {str(at): text for at, text in hostile.content.items()}


def test_json_cannot_end_its_element():
    data = {"names": HOSTILE, "</script>": [None, 1.5, True]}
    text = str(embed(data))
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == data


def test_the_page_lets_nothing_else_run_and_fetches_nothing(hostile):
    page = render(hostile)
    found = Elements(page)
    policy = next(attributes["content"] for tag, attributes in found.tags if "http-equiv" in attributes)
    assert policy.startswith(
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-"
    )
    script_part = policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe" not in script_part
    for tag, attributes in found.tags:
        for name in ("src", "href", "action"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    own = page.partition("<style>")[2].partition("</style>")[0] + found.scripts[2][1]
    assert "url(" not in own
    assert "@import" not in own


def test_our_scripts_never_turn_text_into_markup(hostile):
    script = Elements(render(hostile)).scripts[2][1]
    assert len(script) > 10_000
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in script
    # Attributes are set from a fixed list of names; none of them is an event or a style.
    assert not re.search(r"setAttribute\(\s*[\"']on", script)
    assert all(name.endswith(".js") for name in SCRIPTS)


def test_the_library_is_whole_and_keeps_its_licence():
    library = plot_library()
    assert "Copyright (c) Anaconda, Inc., and Bokeh Contributors" in library
    assert "</script" not in library
    assert 1_000_000 < len(library) < 2_000_000


def test_twenty_thousand_rows_with_three_hundred_thumbnails_stay_below_eight_megabytes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 25_000)
    rows = rng.normal(size=(25_000, 4)).astype(np.float32)
    ids = np.array([f"train/class-{label}/image-{row:08d}.jpeg" for row, label in enumerate(labels)])
    photographs = rng.integers(
        0, 256, (40, 128, 128, 3), dtype=np.uint8
    )  # noise: the largest files there are
    pictures = open_dataset([photographs[row % 40] for row in range(25_000)], holds="image")
    selection = gmmatch.select(rows, keep=0.1, labels=labels, method="random")
    report = summarise(
        selection, Dataset(rows, "many", "array", labels=labels, ids=ids), content=Content(pictures)
    )
    assert len(report.map.row) == 20_000
    assert len(report.content) >= 300
    assert len(render(report).encode()) < 8_000_000


def test_reports_are_written_whole_or_not_at_all(hostile, tmp_path):
    write_report(hostile, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == render(hostile)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InvalidInput, match="cannot write"):
        write_report(hostile, tmp_path / "folder.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "r.html"]


def test_names_that_no_file_can_hold_are_replaced(hostile, tmp_path):
    odd = replace(hostile, title="a lone \udcff half")
    write_report(odd, tmp_path / "r.html")
    assert "a lone ? half" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_refused_first(tmp_path, monkeypatch):
    with pytest.raises(InvalidParameter, match=r"must end in \.html"):
        check_report(tmp_path / "r.pdf")
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_report(tmp_path / "none" / "r.html")
    monkeypatch.setitem(sys.modules, "bokeh.resources", None)
    plot_library.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install bokeh \(the extra gmmatch\[report\]\)"):
        check_report(tmp_path / "r.html")
    plot_library.cache_clear()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "mean of the trusted rows"),
        ({"center": "geometric-median"}, "relative excess of the geometric median"),
        ({"center": "huber"}, "relative excess of the Huber centre"),
        ({"center": "concentrated"}, "not a geometric median"),
        ({"method": "herding"}, "a mean"),
        ({"method": "moderate"}, "a mean"),
    ],
)
def test_the_page_says_which_centre_was_matched(params, words):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 120)
    rows = rng.normal(size=(120, 4)) + 3.0 * labels[:, None]
    selection = gmmatch.select(rows, keep=20, labels=labels, **params)
    page = render(summarise(selection, Dataset(rows, "blobs", "array", labels=labels)))
    assert f'<dd class="more">{words}</dd>' in page


def test_a_report_as_plain_data_is_what_its_dataclasses_say(hostile):
    assert json.dumps(hostile.as_dict()) == json.dumps(dataclasses.asdict(hostile))
