"""What results show of themselves in a notebook."""

from __future__ import annotations

import html
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import gmmatch

RNG = np.random.default_rng(0)
LABELS = np.repeat(["<b>cat</b>", "dog"], 60)
ROWS = RNG.normal(size=(120, 6)) + 2.0 * (LABELS == "dog")[:, None]


class Texts(HTMLParser):
    """Collects tags and texts; unknown tags would show markup that was not escaped."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gmmatch.open(ROWS, LABELS),
        lambda: gmmatch.select(ROWS, LABELS, keep=0.2),
        lambda: gmmatch.select(ROWS, keep=0.2),
        lambda: gmmatch.suspects(ROWS, LABELS),
    ],
)
def test_results_show_counts_and_rows_and_escape_what_they_hold(make) -> None:
    found = Texts(make()._repr_html_())
    assert found.tags.count("tr") == 11
    assert found.tags.count("b") == 1
    assert any("120" in text for text in found.texts)


def test_images_and_texts_are_shown(tmp_path) -> None:
    pictures = RNG.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    kept = gmmatch.select(gmmatch.open(pictures, np.arange(40) % 2, encoder="pixels"), keep=0.5)
    assert kept._repr_html_().count('<img src="data:image/png') == 10
    found = gmmatch.suspects(gmmatch.open(pictures, np.arange(40) % 2, encoder="pixels"))
    assert found._repr_html_().count('<img src="data:image/png') == 10
    assert pickle.loads(pickle.dumps(found))._repr_html_().count("<img") == 0
    texts = [f"text {number} <script>" for number in range(40)]
    page = gmmatch.open(texts)._repr_html_()
    assert "text 3 &lt;script&gt;" in page
    assert "<script" not in page


def test_the_page_is_shown_inline() -> None:
    kept = gmmatch.select(ROWS, LABELS, keep=0.2)
    inside = kept.show(height=500)._repr_html_()
    assert inside.startswith("<iframe srcdoc=")
    assert "height:500px" in inside
    page = html.unescape(inside.partition('srcdoc="')[2].rpartition('" style')[0])
    assert "</html>" in page


def test_the_figure_has_a_map_where_the_data_is_at_hand(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    kept = gmmatch.select(ROWS, LABELS, keep=0.2)
    assert len(kept.plot().axes) == 2
    kept.save(tmp_path / "kept.parquet")
    loaded = gmmatch.load_selection(tmp_path / "kept.parquet")
    assert len(loaded.plot().axes) == 1
    assert len(loaded.plot(ROWS).axes) == 2


def test_the_figure_lays_rows_out_by_class_and_draws_the_error_of_all_classes() -> None:
    pytest.importorskip("matplotlib")
    kept = gmmatch.select(ROWS, LABELS, keep=0.2)
    chart, curve = kept.plot().axes
    assert "linear classifier" in chart.get_title().replace("\n", " ")
    assert max(map(len, chart.get_title().split("\n"))) <= 80
    assert curve.lines[0].get_ydata()[-1] == pytest.approx(kept.objective, rel=1e-6)
