import csv
import re
from collections import defaultdict

import numpy as np
import pytest

from gmmatch.errors import InvalidInput
from gmmatch.lab.experiments.grid import accuracy_blocks, paper_blocks, picks_blocks
from gmmatch.lab.experiments.latex import escape
from gmmatch.lab.experiments.markdown import GAP
from gmmatch.lab.experiments.paper import find_figure, paper_figures
from gmmatch.lab.experiments.standings import standings
from gmmatch.lab.experiments.tables import write_tables

METHODS = ("random", "moderate", "gm-matching-paper", "gm-matching")
KEEPS = (0.05, 0.1, 0.3)


def record(scenario, method, keep, seed, accuracy, picks=None, rows=None, **more):
    return {
        "table": "label_noise",
        "scale": "cpu",
        "dataset": "CIFAR-10",
        "scenario": scenario,
        "proxy": "efficientnet-lite0",
        "target": "linear-probe",
        "method": method,
        "keep": keep,
        "seed": seed,
        "accuracy": accuracy,
        "corrupted_picks": picks,
        "corrupted_rows": rows,
        "seconds": {"select": 1.0, "train": 2.0},
        "versions": {"numpy": "2.0"},
        "recipe": {},
        "date": "2026-11-16T10:00:00",
    } | more


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    found = []
    for scenario, share in (("clean", 0.0), ("labels-20", 0.2), ("labels-35", 0.35)):
        for method in METHODS:
            for keep in KEEPS:
                for seed in range(3):
                    picks = share * rng.uniform() if share else None
                    found.append(record(scenario, method, keep, seed, rng.uniform(40, 80), picks, share))
    return found


def markdown_tables(text):
    """Read every Markdown table under the heading above it, the way a reader would."""
    tables, section, heading = defaultdict(list), "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = heading = line[3:]
        elif line.startswith("### "):
            heading = line[4:].split(" (")[0]
        elif line.startswith("|") and not line.startswith("|---"):
            tables[section, heading].append([cell.strip() for cell in line.strip("|").split("|")])
    return tables


def test_means_and_spreads_are_numpys(records, tmp_path):
    report, *_ = write_tables(records, tmp_path, "Label noise")
    lines = markdown_tables(report.read_text())["Test accuracy", "20 % of the labels wrong"]
    assert lines[0] == ["method", "5 %", "10 %", "30 %", "mean"]
    assert [line[0] for line in lines[1:]] == list(METHODS)
    for method, *cells in lines[1:]:
        values = np.array(
            [
                [
                    r["accuracy"]
                    for r in records
                    if (r["scenario"], r["method"], r["keep"]) == ("labels-20", method, keep)
                ]
                for keep in KEEPS
            ]
        )
        shown = [cell.strip("*") for cell in cells]
        wanted = [f"{row.mean():.2f} ± {row.std(ddof=1):.2f}" for row in values]
        assert shown == [*wanted, f"{values.mean(axis=1).mean():.2f}"]


def test_the_best_of_each_column_is_bold_and_no_other(records, tmp_path):
    report, *_ = write_tables(records, tmp_path, "Label noise")
    tables = markdown_tables(report.read_text())
    for (section, _), lines in tables.items():
        if section not in ("Test accuracy", "Corrupted share of the picks"):
            continue
        for column in range(1, len(lines[0])):
            cells = [line[column] for line in lines[1:]]
            numbers = [float(re.match(r"\**([\d.]+)", cell).group(1)) for cell in cells]
            best = max(numbers) if section == "Test accuracy" else min(numbers)
            assert [cell.startswith("**") for cell in cells] == [number == best for number in numbers]


def test_columns_that_tell_no_method_apart_have_no_best():
    same = [record("clean", method, 1.0, 0, 70.0) for method in METHODS]
    (block,) = accuracy_blocks(same)
    assert not any(block.best().values())
    assert block.mean("random") is None


def test_missing_cells_leave_gaps_and_no_mean(records, tmp_path):
    partial = [r for r in records if not (r["method"] == "moderate" and r["keep"] == 0.1)]
    report, cells, *_ = write_tables(partial, tmp_path, "Label noise")
    lines = markdown_tables(report.read_text())["Test accuracy", "No corruption"]
    moderate = next(line for line in lines if line[0] == "moderate")
    assert moderate[2] == moderate[4] == GAP
    assert moderate[1] != GAP
    with cells.open() as file:
        assert len(list(csv.DictReader(file))) == 3 * (len(METHODS) * len(KEEPS) - 1)


def test_the_csv_has_every_cell(records, tmp_path):
    _, cells, *_ = write_tables(records, tmp_path, "Label noise")
    with cells.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        mine = [
            r
            for r in records
            if (r["scenario"], r["method"], r["keep"]) == (row["scenario"], row["method"], float(row["keep"]))
        ]
        assert float(row["accuracy"]) == pytest.approx(np.mean([r["accuracy"] for r in mine]), abs=1e-4)
        assert int(row["seeds"]) == 3
        if row["scenario"] != "clean":
            share = np.mean([r["corrupted_picks"] for r in mine])
            assert float(row["corrupted_picks"]) == pytest.approx(share, abs=1e-4)


def test_standings_are_plain_differences_of_means(records):
    found = {entry.name: entry for entry in standings(records)}
    means = {
        (scenario, method): np.mean(
            [r["accuracy"] for r in records if (r["scenario"], r["method"]) == (scenario, method)]
        )
        for scenario in ("clean", "labels-20", "labels-35")
        for method in METHODS
    }
    entry = found["35 % of the labels wrong"]
    best = max(means["labels-35", method] for method in METHODS[:-1])
    assert entry.lead == pytest.approx(means["labels-35", "gm-matching"] - best)
    assert entry.over_random == pytest.approx(
        means["labels-35", "gm-matching"] - means["labels-35", "random"]
    )
    average = {method: (means["labels-20", method] + means["labels-35", method]) / 2 for method in METHODS}
    entry = found["Average with corruption"]
    assert entry.best == max(METHODS[:-1], key=average.get)
    assert entry.lead == pytest.approx(average["gm-matching"] - average[entry.best])


def test_where_gm_matching_does_not_lead_the_table_says_so(tmp_path):
    level = {"random": 50.0, "moderate": 60.0, "gm-matching": 61.0}
    found = [record("labels-20", name, keep, 0, level[name]) for name in level for keep in (0.1, 0.3)]
    found[3]["accuracy"] = 64.25  # moderate at 30 %
    report, *_ = write_tables(found, tmp_path, "Label noise")
    ((_, line),) = [
        lines
        for (section, _), lines in markdown_tables(report.read_text()).items()
        if section == "Where gm-matching stands"
    ]
    assert line[1:8] == [
        "61.00", "62.12 (moderate)", "-1.12", "+11.00", "+11.00", "1 of 2", "moderate +3.25 at 30 %",
    ]  # fmt: skip


def test_latex_is_balanced_and_every_line_has_all_columns(records, tmp_path):
    odd = [r | {"dataset": "my_data & 50% {more} #1"} for r in records]
    *_, printed = write_tables(records + odd, tmp_path, "Label_noise: 20 % & more")
    text = printed.read_text()
    stack, width = [], 0
    for line in text.splitlines():
        if line.startswith("%"):
            continue
        for kind, name in re.findall(r"\\(begin|end)\{(table\*|tabular)\}", line):
            if kind == "begin":
                stack.append(name)
            else:
                assert stack.pop() == name
        opened = re.match(r"\\begin\{tabular\}\{(l?c+)\}", line)
        width = len(opened.group(1)) if opened else width
        bare = re.sub(r"\\[\\&%#_{}$]", "", line)
        assert bare.count("{") == bare.count("}")
        assert "%" not in bare
        assert "#" not in bare
        assert bare.count("$") % 2 == 0
        if line.endswith(r"\\"):
            spans = [int(size) for size in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            assert bare.count("&") + 1 + sum(spans) - len(spans) == width
        assert line.isascii()
    assert not stack
    assert "my\\_data \\& 50\\% \\{more\\} \\#1" in text


def test_latex_escapes_every_special_character():
    assert escape("a\\b~c^d") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"


def test_settings_stand_side_by_side_where_they_fit_and_below_each_other_where_not():
    def cells(keeps):
        return [
            record("labels-20", method, keep, 0, 50.0 + keep, target=target)
            for method in METHODS
            for keep in keeps
            for target in ("vgg16", "shufflenetv2")
        ]

    (block,) = accuracy_blocks(cells((0.2, 0.3)))
    assert [column.keep for column in block.columns] == [0.2, 0.3, 0.2, 0.3]
    assert len(accuracy_blocks(cells((0.2, 0.3, 0.4, 0.6)))) == 2


def test_the_standings_file_has_the_leads(records, tmp_path):
    _, _, stand, _ = write_tables(records, tmp_path, "Label noise")
    with stand.open() as file:
        rows = list(csv.DictReader(file))
    for row, entry in zip(rows, standings(records), strict=True):
        assert float(row["lead"]) == pytest.approx(entry.lead, abs=1e-4)
        assert float(row["over_random"]) == pytest.approx(entry.over_random, abs=1e-4)


def test_the_same_cell_twice_two_scales_and_no_records_are_refused(records, tmp_path):
    with pytest.raises(InvalidInput, match="one record per seed"):
        write_tables([*records, records[0]], tmp_path, "x")
    with pytest.raises(InvalidInput, match="one scale; got cpu, smoke"):
        write_tables([records[0], records[1] | {"scale": "smoke"}], tmp_path, "x")
    with pytest.raises(InvalidInput, match="at least one record"):
        write_tables([], tmp_path, "x")


def test_scenarios_that_corrupt_nothing_or_everything_have_no_table_of_picks(records):
    records.append(record("pgd", "random", 0.1, 0, 50.0, 1.0, 1.0))
    assert {block.scenario for block in picks_blocks(records)} == {"labels-20", "labels-35"}


# Read off the paper's tables by eye.
@pytest.mark.parametrize(
    ("cell", "accuracy", "spread"),
    [
        (("CIFAR-100", "clean", "resnet50", "resnet50", "random", 0.2), 50.26, 3.24),
        (("CIFAR-100", "clean", "resnet50", "resnet50", "forgetting", 0.8), 77.50, 0.53),
        (("tiny imagenet", "clean", "ResNet-50", "ResNet-50", "optimization", 0.2), 13.88, 2.17),
        (("cifar100", "labels-20", "resnet50", "resnet50", "herding", 0.3), 50.52, 3.38),
        (("cifar100", "pgd", "resnet50", "resnet50", "el2n", 0.3), 34.50, 1.02),
        (("cifar100", "fgsm", "resnet50", "resnet50", "grand", 0.2), 40.77, 1.11),
        (("tiny-imagenet", "clean", "resnet50", "senet18", "moderate", 0.2), 36.04, 0.15),
        (("tiny-imagenet", "clean", "resnet50", "efficientnet-b0", "self-supervised", 0.3), 37.96, 0.77),
        (("tiny-imagenet", "labels-20", "resnet50", "shufflenetv2", "random", 0.2), 25.08, 1.32),
        (("tiny-imagenet", "labels-35", "resnet50", "resnet50", "gm-matching-paper", 0.2), 23.14, 0.92),
    ],
)
def test_the_papers_figures_are_the_papers(cell, accuracy, spread):
    found = find_figure(*cell)
    assert (found.accuracy, found.spread) == (accuracy, spread)


def test_figures_that_the_paper_prints_twice_agree():
    cells = defaultdict(set)
    for f in paper_figures():
        cells[f.dataset, f.corruption, f.target, f.method, f.keep].add((f.accuracy, f.spread))
    assert all(len(values) == 1 for values in cells.values())


def test_the_papers_figure_stands_beside_ours_on_the_papers_own_setting(tmp_path):
    setting = {"dataset": "cifar-100", "proxy": "resnet50", "target": "resnet50"}
    found = [record("labels-35", name, 0.3, 0, 50.0, **setting) for name in ("random", "gm-matching")]
    report, cells, *_ = write_tables(found, tmp_path, "Label noise")
    assert "50.00 (58.41)" in report.read_text()
    assert "58.41" in cells.read_text()
    assert paper_blocks(found) == []


def test_transfer_is_compared_with_transfer_and_foreign_encoders_with_nothing():
    def blocks(proxy, target):
        return paper_blocks([record("clean", "random", 0.2, 0, 50.0, proxy=proxy, target=target)])

    assert {column.setting[2] for block in blocks("resnet8", "vgg16") for column in block.columns} == {
        "SENet", "EfficientNet-B0", "VGG-16", "ShuffleNet",
    }  # fmt: skip
    assert {column.setting[2] for block in blocks("resnet8", "resnet8") for column in block.columns} == {
        "ResNet-50"
    }
    assert blocks("timm:resnet18", "resnet18") == []


def test_elsewhere_the_papers_table_follows_ours(records, tmp_path):
    report, *_ = write_tables(records, tmp_path, "Label noise")
    tables = markdown_tables(report.read_text())
    lines = tables["The paper's figures", "35 % of the labels wrong"]
    ours = next(line for line in lines if line[0] == "gm-matching")
    assert ours[1:5] == ["**43.33 ± 1.02**", "**58.41 ± 0.68**", "**23.14 ± 0.92**", "**27.76 ± 0.40**"]
    assert ours[5] == "**38.16**"  # the paper's own mean


def test_wins_and_losses_are_counted_against_every_other_method(tmp_path):
    level = {"random": 50.0, "moderate": 60.0, "gm-matching": 61.0}
    found = [record("labels-20", name, keep, 0, level[name]) for name in level for keep in (0.1, 0.3)]
    found[3]["accuracy"] = 64.25  # moderate at 30 %
    report, *_ = write_tables(found, tmp_path, "Label noise")
    ((_, hardest, weakest),) = [
        lines
        for (section, _), lines in markdown_tables(report.read_text()).items()
        if section == "Wins and losses"
    ]
    assert hardest == ["moderate", "2", "1", "1", "-1.12", "-3.25"]
    assert weakest == ["random", "2", "2", "0", "+11.00", "+11.00"]
