from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gmmatch
from gmmatch.data import Dataset, open_dataset
from gmmatch.reporting import Content, summarise, write_report

from .conftest import MARKUP, SCRIPT, settle

pytestmark = pytest.mark.slow

FIGURE = "Bokeh.documents.flatMap((found) => found.roots()).find((plot) => plot.renderers.length === 3)"
LONG = 700  # milliseconds that a button may be held before it moves
VIEW = f"[...Bokeh.index].find((view) => view.model === {FIGURE})"


def expect(locator):
    """Return what waits until something holds of a part of the page."""
    from playwright import sync_api

    sync_api.expect.set_options(timeout=20_000)
    return sync_api.expect(locator)


def script(name):
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def colours(page):
    """Return the colours of the points on the map."""
    return page.evaluate(f"Array.from({FIGURE}.renderers[0].data_source.data.colour)")


def place(page, at):
    """Return where a point of the map is on the screen."""
    box = page.locator("#plot").bounding_box()
    x, y = page.evaluate(
        f"""(at) => {{
          const [view, data] = [{VIEW}, {FIGURE}.renderers[0].data_source.data];
          return [view.frame.x_scale.compute(data.x[at]), view.frame.y_scale.compute(data.y[at])];
        }}""",
        at,
    )
    return box["x"] + x, box["y"] + y


def pixels(page, selector):
    settle(page)
    return np.asarray(Image.open(io.BytesIO(page.locator(selector).screenshot())).convert("RGB")).astype(int)


def move_to(page, at):
    page.locator("#plot").scroll_into_view_if_needed()
    x, y = place(page, at)
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    settle(page)


def lonely(report):
    """Return a kept row that no other row is near to."""
    spots = np.stack([report.map.x, report.map.y], axis=1).astype(float)
    gaps = np.sort(((spots[:, None] - spots[None]) ** 2).sum(axis=2), axis=1)[:, 1]
    left, right, bottom, top = report.map.window
    inside = (spots > [left, bottom]).all(axis=1) & (spots < [right, top]).all(axis=1)
    kept = np.array(report.map.rank) >= 1  # the first pick is pinned from the start
    return int(np.argmax(np.where(inside & kept, gaps, -1)))


def test_the_page_loads_from_disk_with_the_network_off(visit, digits):
    path, _ = digits
    page = visit(path)
    assert page.asked == [path.as_uri()]
    assert page.title() == "60 of 300 rows kept · gmmatch"
    expect(page.locator("#kept")).to_have_text("60 kept")
    shown = pixels(page, "#plot")
    assert len(np.unique(shown.reshape(-1, 3), axis=0)) > 20


def test_the_slider_changes_the_kept_rows_and_the_map(visit, digits):
    path, report = digits
    page = visit(path)
    page.locator("#plot").scroll_into_view_if_needed()
    before, drawn = colours(page), pixels(page, "#plot")
    slider = page.locator("#slider")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    settle(page)
    expect(page.locator("#kept")).to_have_text("10 kept")
    assert slider.get_attribute("aria-valuetext").startswith("10 rows kept")
    after = colours(page)
    changed = {at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    assert changed == {at for at, rank in enumerate(report.map.rank) if rank >= 10}
    assert (np.abs(pixels(page, "#plot") - drawn).max(axis=2) > 40).sum() > 200
    assert (
        f"distance {float(f'{report.curve.objective[9]:.3g}'):g}" in page.locator("#reading").text_content()
    )
    assert page.locator("#legend").inner_text().split("\n")[:2] == ["kept", "10"]
    kept = [int(cell) for cell in page.locator("#class-body td:nth-child(3)").all_inner_texts()]
    assert sorted(kept) == sorted(np.sum(report.classes.steps[:10], axis=0).tolist())
    page.keyboard.press("End")
    settle(page)
    expect(page.locator("#kept")).to_have_text("60 kept")
    assert colours(page) == before


def test_pointing_at_a_row_shows_it_and_a_click_pins_it(visit, digits):
    path, report = digits
    page = visit(path)
    at = lonely(report)
    move_to(page, at)
    card = page.locator("#hover")
    expect(card).to_be_visible()
    expect(card.locator(".name")).to_have_text(report.map.id[at])
    assert card.locator("img").get_attribute("src") == report.content[at]
    assert card.locator("img").evaluate("(image) => image.naturalWidth") == 8
    assert f"kept, pick {report.map.rank[at] + 1}" in card.inner_text()
    page.mouse.click(*place(page, at), delay=LONG)
    settle(page)
    pinned = page.locator("#pinned")
    expect(pinned.locator(".item .name")).to_have_text(report.map.id[at])
    page.mouse.move(5, 5)
    settle(page)
    expect(card).to_be_hidden()
    expect(pinned.locator(".item .name")).to_have_text(report.map.id[at])
    pinned.get_by_role("button", name="Unpin").click()
    expect(pinned.locator(".item .name")).to_have_count(0)


@pytest.mark.parametrize("tool", ["Box", "Lasso"])
def test_a_box_and_a_lasso_list_and_save_what_is_inside(visit, digits, tool, tmp_path):
    path, report = digits
    page = visit(path)
    page.locator("#plot").scroll_into_view_if_needed()
    page.locator("#tools").get_by_role("button", name=tool).click()
    box = page.locator("#plot").bounding_box()
    middle = box["x"] + box["width"] / 2
    corners = [(middle, box["y"] + 20), (box["x"] + box["width"] - 20, box["y"] + 20)]
    corners += [(x, box["y"] + box["height"] - 20) for x, _ in reversed(corners)]
    route = [corners[0], corners[2]] if tool == "Box" else [*corners, corners[0]]
    page.mouse.move(*route[0])
    page.mouse.down()
    page.wait_for_timeout(LONG)
    for x, y in route[1:]:
        page.mouse.move(x, y, steps=8)
    page.mouse.up()
    settle(page)
    across = f"Array.from({FIGURE}.renderers[0].data_source.data.x, (x) => {VIEW}.frame.x_scale.compute(x))"
    inside = [x for x in page.evaluate(across) if box["x"] + x > middle]
    expect(page.locator("#selected h3")).to_contain_text("inside")
    expect(page.locator("#hover")).to_be_hidden()
    found = int(page.locator("#selected h3").inner_text().split()[0])
    assert 20 < found < 280
    assert abs(found - len(inside)) <= 8
    listed = page.locator("#selected .name").all_text_contents()
    assert len(listed) == min(found, 60)
    ranks = [report.map.rank[report.map.id.index(name)] for name in listed]
    kept = [rank for rank in ranks if rank >= 0]
    assert ranks[: len(kept)] == sorted(kept)
    with page.expect_download() as download:
        page.locator("#selected").get_by_role("button", name="Save").click()
    saved = gmmatch.data.read_values(download.value.path().rename(tmp_path / "rows.csv"), "ids")
    assert saved[: len(listed)].tolist() == listed
    assert len(saved) == found
    page.locator("#selected").get_by_role("button", name="Clear").click()
    expect(page.locator("#selected h3")).to_have_count(0)


def test_rows_are_found_by_id_and_by_number(visit, digits):
    path, _ = digits
    page = visit(path)
    page.locator("#search").fill(f"{SCRIPT} 17")
    expect(page.locator("#found .name").first).to_have_text(f"{SCRIPT} 17")
    page.locator("#search").fill("123")
    page.locator("#found button").first.click()
    expect(page.locator("#pinned .item .name")).to_have_text(f"{SCRIPT} 123")
    page.locator("#search").fill("no such row")
    assert "Nothing on the map" in page.locator("#found").inner_text()


def test_the_table_of_classes_is_sorted_by_its_buttons(visit, digits):
    path, report = digits
    page = visit(path)

    def column(number):
        return page.locator(f"#class-body td:nth-child({number})").all_inner_texts()

    assert column(2) == sorted(map(str, report.classes.sizes), key=int, reverse=True)
    head = page.locator("#class-head th")
    assert head.nth(1).get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Class", exact=True).click()
    assert column(1) == [MARKUP, "bee", "cow & calf"]
    assert head.nth(0).get_attribute("aria-sort") == "ascending"
    assert head.nth(1).get_attribute("aria-sort") == "none"
    assert page.evaluate("document.activeElement.textContent") == "Class"
    page.keyboard.press("Enter")
    assert column(1) == ["cow & calf", "bee", MARKUP]
    page.get_by_role("button", name="Suspects").click()
    shares = [float(text.split()[0]) for text in column(5)]
    assert shares == sorted(shares, reverse=True)
    page.locator("#class-search").fill("calf")
    assert column(1) == ["cow & calf"]


def test_names_and_ids_are_text_and_run_nothing(visit, digits):
    path, _ = digits
    page = visit(path)
    page.locator("input[value=class]").check(force=True)
    settle(page)
    assert MARKUP in page.locator("#legend").inner_text()
    assert MARKUP in page.locator("#class-body").inner_text()
    assert MARKUP in page.locator(".source").inner_text()
    assert MARKUP in page.locator("#review-card").inner_text()
    assert SCRIPT in page.locator("#repeat").inner_text()
    named = page.locator("[data-gallery=first] .name").first
    assert named.text_content().startswith(SCRIPT)
    page.locator("#search").fill("<script>")
    assert page.locator("#found .name").first.text_content().startswith(SCRIPT)
    expect(page.locator("img:not([src^='data:image/'])")).to_have_count(0)
    expect(page.locator("script")).to_have_count(3)
    assert page.asked == [path.as_uri()]


def test_the_page_lets_no_other_script_run(visit, digits):
    path, _ = digits
    page = visit(path)
    ran = page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.evil = 1";
          document.body.append(script);
          const image = document.createElement("img");
          image.setAttribute("onerror", "window.evil = 2");
          image.src = "data:image/png;base64,AAAA";
          document.body.append(image);
          return new Promise((done) => setTimeout(() => done(window.evil || 0), 200));
        }"""
    )
    assert ran == 0
    assert any("Content Security Policy" in complaint for complaint in visit.complaints)
    visit.complaints.clear()


def test_dark_follows_the_system_and_the_button(visit, digits):
    path, _ = digits
    page = visit(path, color_scheme="dark")
    page.locator("#plot").scroll_into_view_if_needed()
    dark = pixels(page, "#plot")
    assert dark.mean() < 60
    page.get_by_role("button", name="Use light colours").click()
    assert pixels(page, "#plot").mean() > 200
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.get_by_role("button", name="Use dark colours").click()
    assert np.abs(pixels(page, "#plot") - dark).mean() < 2


def test_the_map_answers_to_the_keyboard(visit, digits):
    path, report = digits
    page = visit(path)
    page.locator("#plot").focus()
    order = [report.map.rank.index(rank) for rank in range(4)]
    page.keyboard.press("ArrowRight")
    settle(page)
    expect(page.locator("#hover .name")).to_have_text(report.map.id[order[1]])
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    settle(page)
    page.keyboard.press("Enter")
    expect(page.locator("#pinned .item .name")).to_have_text(report.map.id[order[2]])
    page.keyboard.press("Escape")
    expect(page.locator("#pinned .item .name")).to_have_count(0)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("class", "cow & calf"), ("distance", "distance to the centre"), ("suspicion", "1 hard")],
)
def test_the_map_is_coloured_by_what_is_asked_for(visit, digits, mode, words):
    path, _ = digits
    page = visit(path)
    before = colours(page)
    page.locator(f"input[value={mode}]").check(force=True)
    expect(page.locator("#legend")).to_contain_text(words)
    settle(page)
    after = colours(page)
    assert len(set(after)) > len(set(before)) >= 2
    page.get_by_role("button", name="Use dark colours").click()
    settle(page)
    assert (colours(page) == after) == (mode == "class")


def test_galleries_lead_to_the_map(visit, digits):
    path, report = digits
    page = visit(path)
    first = page.locator("[data-gallery=first]")
    tiles = first.locator(".tile")
    assert tiles.first.locator("img").get_attribute("src") == report.content[report.galleries[0].rows[0]]
    expect(tiles).to_have_count(16)
    first.get_by_role("button", name="Show all 60").click()
    expect(tiles).to_have_count(60)
    tiles.nth(3).click()
    expect(page.locator("#pinned .item .name")).to_have_text(report.map.id[report.galleries[0].rows[3]])


def test_suspects_stand_beside_what_they_are_compared_with(visit, digits):
    path, report = digits
    page = visit(path)
    tabs = {tab.name: tab for tab in report.review.tabs}
    assert [tab.title for tab in report.review.tabs] == ["Labels", "Outliers", "Duplicates"]
    amounts = page.locator("#review-tabs .amount").all_inner_texts()
    assert amounts == [f"{tab.total:,}" for tab in report.review.tabs]
    one, other = page.locator("#review-card img").all()
    at, beside = tabs["labels"].rows[0], tabs["labels"].beside[0]
    assert (one.get_attribute("src"), other.get_attribute("src")) == (
        report.content[at],
        report.content[beside],
    )
    given, likelier = page.locator("#review-card .tag").all_text_contents()
    names, found = report.classes.names, report.map
    assert (given, likelier) == (names[found.code[at]], names[found.suggested[at]])
    expect(page.locator("#review-card .reason")).to_have_text(found.reason[at])
    share, low, high = (f"{100 * part:.1f}" for part in report.review.estimate)
    assert (
        f"About {share} % of the labels are wrong, by estimate ({low} to {high} %)"
        in page.locator("#suspects .heading").inner_text()
    )
    page.get_by_role("tab", name="Duplicates").click()
    keep = page.locator("#review-card .side-row .name").nth(1)
    expect(keep).to_have_text(found.id[tabs["duplicates"].beside[0]])
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Outliers")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Show on the map").click()
    expect(page.locator("#pinned .item .name")).to_have_text(found.id[tabs["outliers"].rows[0]])


def test_the_map_names_its_classes_where_they_lie(visit, digits):
    path, report = digits
    page = visit(path)
    spots = page.evaluate(f"{FIGURE}.renderers[1].data_source.data")
    names = report.classes.names
    assert [name.replace("…", "") for name in spots["name"]] == [
        name if len(name) <= 20 else name[:19] for name in names
    ]
    places = np.stack([report.map.x, report.map.y], axis=1)
    left, right, *_ = report.map.window
    for code, spot in enumerate(zip(spots["x"], spots["y"], strict=True)):
        own = places[(np.array(report.map.code) == code) & (np.array(report.map.tier) == 0)].astype(float)
        near = [(np.linalg.norm(own - one, axis=1) < (right - left) / 25).sum() for one in own]
        assert list(spot) in own[np.array(near) == max(near)].tolist()  # where its rows are densest


def test_without_labels_rows_called_wrong_are_saved_for_exclude(visit, tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 8))
    rows[[7, 90, 200]] += 60.0
    data = gmmatch.open(rows)
    path = tmp_path / "page.html"
    report = summarise(gmmatch.select(data, keep=30), data)
    write_report(report, path)
    page = visit(path)
    assert "label" not in page.locator("#review").inner_text().lower()
    page.locator("#review-card").click()
    for key in ("w", "r", "w"):
        page.keyboard.press(key)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save rows").click()
    file = download.value.path().rename(tmp_path / "rows.csv")
    outliers = report.review.tabs[0].rows
    called = sorted(report.map.row[outliers[place]] for place in (0, 2))
    kept = gmmatch.select(rows, keep=1.0, exclude=file)
    assert np.setdiff1d(np.arange(300), kept.indices).tolist() == called


def test_decisions_are_made_by_keys_and_fed_back_as_labels(visit, digits, tmp_path):
    path, report = digits
    page = visit(path)
    labels, _, duplicates = report.review.tabs
    card, counted = page.locator("#review-card"), page.locator("#review-count")
    expect(page.get_by_role("button", name="Save labels")).to_be_disabled()
    page.get_by_role("tab", name="Labels").click()
    for key in ("w", "R", "n", "ArrowRight", "ArrowLeft", "s", "ArrowLeft", "w"):
        page.keyboard.press(key)
    expect(counted).to_have_text("4 decisions: 3 wrong, 1 right")
    page.keyboard.press("ArrowLeft")
    expect(card.get_by_role("button", name="Wrong")).to_have_attribute("aria-pressed", "true")
    card.get_by_role("button", name="Skip").click()
    expect(counted).to_have_text("3 decisions: 2 wrong, 1 right")
    assert page.locator("#review-strip .chip.wrong").count() == 2
    page.get_by_role("tab", name="Duplicates").click()
    expect(page.locator("#wrong-does")).to_have_text("Wrong: the row loses its label.")
    expect(card.get_by_role("button", name="Neither")).to_have_count(0)
    card.get_by_role("button", name="Wrong").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save labels").click()
    saved = tmp_path / "labels.csv"
    download.value.save_as(saved)
    names, found = np.array(report.review.labels.names), report.map
    given = {row: names[code] for row, code in zip(found.row, found.code, strict=True)}
    expected = [given[row] for row in range(len(given))]
    expected[found.row[labels.rows[0]]] = names[found.suggested[labels.rows[0]]]
    gone = sorted([found.row[labels.rows[2]], found.row[duplicates.rows[0]]])
    rows = np.random.default_rng(0).normal(size=(len(given), 2))
    ids = [found.id[found.row.index(row)] for row in range(len(given))]
    again = gmmatch.open(rows, labels=saved, ids=ids, on_bad_rows="drop")
    assert again.bad_rows.tolist() == gone
    assert np.delete(again.labels, gone).tolist() == np.delete(expected, gone).tolist()
    assert page.asked == [path.as_uri()]


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory):
    """Return a report with more suspects than a page lists, and what is in it."""
    rng = np.random.default_rng(3)
    codes = np.arange(900) % 3
    rows = rng.normal(size=(900, 6)) + 4.0 * np.eye(6)[codes]
    names = np.array(["ant", "bee", "cow"])
    labels = names[np.where(rng.random(900) < 0.15, (codes + 1) % 3, codes)]
    ids = np.array([f"photos/{row:04d}.png" for row in range(900)])
    selection = gmmatch.select(rows, labels, keep=60)
    report = summarise(selection, Dataset(rows, "rows", "array", labels=labels, ids=ids))
    path = tmp_path_factory.mktemp("doubtful") / "page.html"
    write_report(report, path)
    return path, report


def test_all_suspects_are_reviewed_page_by_page_and_decisions_outlive_the_page(visit, doubtful, tmp_path):
    path, report = doubtful
    page = visit(path)
    (labels, *_), found = report.review.tabs, report.map
    assert len(labels.rows) == labels.total > 60
    expect(page.locator("#review-strip .chip")).to_have_count(60)
    page.get_by_role("button", name="Next page").click()
    expect(page.locator("#review-pages")).to_contain_text("page 2 of")
    page.keyboard.press("r")
    page.keyboard.press("c")
    expect(page.locator("#review-class")).to_be_focused()
    code = next(
        c for c in range(3) if c not in (found.code[labels.rows[61]], found.suggested[labels.rows[61]])
    )
    page.locator("#review-class").select_option(str(code))
    expect(page.locator("#review-count")).to_have_text("2 decisions: 1 wrong, 1 right")
    page.reload()
    page.locator("html[data-ready=true]").wait_for(state="attached")
    expect(page.locator("#review-count")).to_have_text("2 decisions: 1 wrong, 1 right")
    page.get_by_label("Least probability").fill("0.9")
    page.get_by_role("button", name="Accept suggestions from").click()
    sure = [
        at for at, score in zip(labels.rows, labels.score, strict=True)
        if score >= 0.9 and at not in labels.rows[60:62] and found.suggested[at] >= 0
    ]  # fmt: skip
    expect(page.locator("#review-count")).to_contain_text(f"{len(sure) + 2} decisions")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save labels").click()
    saved = tmp_path / "labels.csv"
    download.value.save_as(saved)
    # Fed back to data with a row more in front: every label is on its row.
    ids = [f"photos/{row:04d}.png" for row in range(900)]
    again = gmmatch.open(np.zeros((901, 2)), saved, ids=["photos/new.png", *ids], on_bad_rows="drop")
    assert again.bad_rows.tolist() == [0]
    expected = {found.row[at]: report.classes.names[found.suggested[at]] for at in sure}
    expected[found.row[labels.rows[61]]] = report.classes.names[code]
    for at, row in enumerate(found.row):
        assert again.labels[row + 1] == expected.get(row, report.classes.names[found.code[at]])
    page.get_by_role("button", name="Forget all").click()
    expect(page.locator("#review-count")).to_have_text("No decisions yet")
    assert page.asked == [path.as_uri()] * 2


def test_a_dropped_row_says_why(visit, doubtful):
    path, report = doubtful
    page = visit(path)
    found = report.map
    at = next(at for at in range(900) if found.rank[at] < 0 and found.tier[at] == 1)
    page.locator("#search").fill(found.id[at])
    page.locator("#found .line").first.click()
    expect(page.locator("#pinned")).to_contain_text("its label is likely wrong; believed rows come first")
    at = next(at for at in range(900) if found.rank[at] < 0 and found.tier[at] == 0)
    page.locator("#search").fill(found.id[at])
    page.locator("#found .line").first.click()
    expect(page.locator("#pinned")).to_contain_text("went to rows that say more")


def test_the_headline_is_what_one_came_for(visit, doubtful):
    path, report = doubtful
    page = visit(path)
    hero = page.locator(".hero")
    expect(hero).to_contain_text("60 of 900 rows kept")
    expect(hero).to_contain_text(f"{report.glance.suspects} seem wrong; none of them was kept.")
    expect(hero).to_contain_text("a linear model gets")
    expect(hero).not_to_contain_text("centre")
    expect(page.locator("#repeat")).to_contain_text("Accuracy of the centre")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_and_everything_has_a_name(visit, digits, scheme):
    path, report = digits
    page = visit(path, color_scheme=scheme)
    move_to(page, lonely(report))
    faint = page.evaluate(script("contrast.js"))
    assert faint == []
    nameless = page.evaluate(script("names.js"))
    assert nameless == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((found) => found.id)")
    assert len(ids) == len(set(ids))
    page.keyboard.press("Tab")
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"


@pytest.mark.parametrize("width", [390, 320])
def test_a_narrow_screen_needs_no_sideways_scrolling(visit, digits, width):
    path, _ = digits
    page = visit(path, viewport={"width": width, "height": 844}, is_mobile=True, has_touch=True)
    many = "document.querySelectorAll('.tabs .amount').forEach((at) => (at.textContent = '198,287'))"
    page.evaluate(many)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    at = page.locator("[data-gallery=first] .tile").first
    at.tap()
    expect(page.locator("#pinned .item .name")).to_be_visible()


def test_long_names_of_classes_need_no_sideways_scrolling(visit, tmp_path):
    rng = np.random.default_rng(2)
    codes = np.arange(240) % 3
    names = np.array([f"{kind} of every kind and colour, new and old, in the city" for kind in "abc"])
    labels = names[np.where(rng.random(240) < 0.2, (codes + 1) % 3, codes)]
    rows = (rng.normal(size=(240, 6)) + 4 * np.eye(3, 6)[codes]).astype(np.float32)
    written(
        tmp_path / "page.html",
        rows,
        30,
        labels=labels,
        ids=np.array([f"{label}/{n}.jpg" for n, label in enumerate(labels)]),
    )
    page = visit(tmp_path / "page.html", viewport={"width": 390, "height": 844}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ends = "[one, one.closest('section')].map((found) => found.getBoundingClientRect().right)"
    names = page.locator("#pinned dd, .verdict .reason").evaluate_all(f"(all) => all.map((one) => {ends})")
    assert names
    assert all(right <= section for right, section in names)


def test_print_leaves_out_what_paper_cannot_do(visit, digits):
    path, _ = digits
    page = visit(path)
    page.emulate_media(media="print")
    expect(page.locator(".panel")).to_be_hidden()
    expect(page.locator("#tools")).to_be_hidden()
    expect(page.locator("#class-body")).to_be_visible()
    assert page.pdf().startswith(b"%PDF")


def written(path, rows, keep, labels=None, ids=None, texts=None, **params):
    selection = gmmatch.select(rows, keep=keep, labels=labels, **params)
    content = None if texts is None else Content(open_dataset(texts, holds="text"))
    report = summarise(selection, Dataset(rows, "X", "array", labels=labels, ids=ids), content=content)
    write_report(report, path)
    return report


RNG = partial(np.random.default_rng, 0)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (RNG().normal(size=(10, 3)), None),
        (RNG().normal(size=(10, 2)), np.repeat([1], 10)),
        (np.ones((12, 4)), None),
    ],
)
def test_tiny_and_odd_data_have_pages(visit, tmp_path, rows, labels):
    written(tmp_path / "r.html", rows, 3, labels)
    page = visit(tmp_path / "r.html")
    expect(page.locator("#kept")).to_have_text("3 kept")
    page.locator("#slider").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#kept")).to_have_text("2 kept")
    for mode in page.locator("#modes input").all():
        mode.check(force=True)
        settle(page)


def test_texts_and_many_classes_have_pages_of_their_own(visit, tmp_path):
    labels = np.arange(900) % 90
    texts = [f"a text about {label} <b>bold</b> " * 9 for label in labels]
    rows = RNG().normal(size=(900, 5))
    report = written(tmp_path / "r.html", rows, 180, labels, texts=texts, method="random")
    page = visit(tmp_path / "r.html")
    first = report.map.row[report.galleries[0].rows[0]]
    expect(page.locator("[data-gallery=first] .text").first).to_have_text(texts[first])
    expect(page.locator("#class-body tr")).to_have_count(20)
    assert "page 1 of 5" in page.locator("#class-pages").inner_text()
    page.locator("#class-pages").get_by_role("button", name="Next page").click()
    assert "page 2 of 5" in page.locator("#class-pages").inner_text()


def test_twenty_thousand_rows_are_drawn_and_moved_through(visit, tmp_path):
    rng = RNG()
    labels = rng.integers(0, 8, 21_000)
    rows = rng.normal(size=(21_000, 6)).astype(np.float32) + labels[:, None]
    report = written(tmp_path / "r.html", rows, 0.1, labels, method="random")
    page = visit(tmp_path / "r.html")
    assert len(colours(page)) == 20_000 == len(report.map.row)
    assert "20,000 of 21,000 rows" in page.locator("#map-about").inner_text()
    page.locator("#slider").focus()
    for _ in range(5):
        page.keyboard.press("PageDown")
    settle(page)
    expect(page.locator("#kept")).not_to_have_text("2,100 kept")
    expect(page.locator("#legend")).to_contain_text("lost at this budget")


def test_fifty_suspects_are_reviewed_by_keys_and_every_label_comes_back_to_its_row(visit, tmp_path):
    """Over all pages, with a reload in between; the folder has another file when the labels are fed back."""
    rng = np.random.default_rng(5)
    codes = np.arange(480) % 3
    given = np.where(rng.random(480) < 0.18, (codes + 1) % 3, codes)
    names = np.array(["ant", "bee", "cow"])
    folder = tmp_path / "photos"
    for name in names:
        (folder / name).mkdir(parents=True)
    shades = np.array([(200, 40, 40), (40, 200, 40), (40, 40, 200)])
    for row, (code, label) in enumerate(zip(codes, names[given], strict=True)):
        pixels = np.clip(shades[code] + rng.normal(0, 30, (4, 4, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / label / f"{row:03d}.png")
    data = gmmatch.open(folder, encoder="pixels")
    gmmatch.select(data, keep=30).report(tmp_path / "page.html")
    page = visit(tmp_path / "page.html")
    counted, pages = page.locator("#review-count"), page.locator("#review-pages")
    total = int(page.locator("#review-tabs .amount").first.inner_text())
    assert total > 60  # more than a page lists
    page.get_by_role("tab", name="Labels").click()
    keys = ("w", "r", "n", "w", "w")
    decided = {}

    def decide(key):
        name = page.locator("#review-card .side-row .name").first.text_content()
        better = page.locator("#review-card .tag").nth(1).text_content()
        decided[name] = {"w": better, "r": name.partition("/")[0], "n": ""}[key]
        page.keyboard.press(key)

    for at in range(25):
        if at == 7:
            page.keyboard.press("s")  # a row that is skipped is not offered again
        else:
            decide(keys[at % 5])
    page.reload()
    page.locator("html[data-ready=true]").wait_for(state="attached")
    expect(counted).to_contain_text("24 decisions")
    page.get_by_role("tab", name="Labels").click()
    expect(page.locator("#review-card")).to_contain_text(f"26 of {total}")
    for at in range(25, total):
        decide(keys[at % 5])
    expect(pages).to_contain_text("page 2 of")
    page.locator("#review-pages").get_by_role("button", name="Previous page").click()
    page.locator("#review-strip .chip").nth(7).click()
    decide("w")
    assert len(decided) == total >= 50
    expect(counted).to_contain_text(f"{total} decisions")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save labels").click()
    saved = tmp_path / "labels.csv"
    download.value.save_as(saved)
    # A file that sorts before all others moves the number of every row.
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(folder / "ant" / "000-new.png")
    again = gmmatch.open(folder, saved, encoder="pixels", on_bad_rows="drop")
    bad = set(again.bad_rows.tolist())
    assert len(again) == 481
    for row, name in enumerate(again.ids.tolist()):
        expected = "" if name == "ant/000-new.png" else decided.get(name, name.partition("/")[0])
        assert (row in bad) == (expected == ""), name
        if expected:
            assert again.labels[row] == expected, name
    assert set(decided) <= set(again.ids.tolist())
