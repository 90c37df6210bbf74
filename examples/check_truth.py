"""Tell how well a selection did, for data that make_photos.py or make_texts.py made.

python examples/check_truth.py photos.truth.csv kept.csv suspects.csv
"""

import csv
import sys
from pathlib import Path


def read(file):
    with Path(file).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def share(found):
    return sum(found) / max(1, len(found))


def main(truth, kept, suspects):
    # The truth is by id where its rows have one, else in the order of the input.
    wrong, damaged = {}, {}
    for at, row in enumerate(read(truth)):
        name = row.get("id", str(at))
        wrong[name] = row.get("label", row.get("intent")) != row["truth"]
        damaged[name] = row.get("damaged") == "1"
    picked = [wrong[row["id"]] for row in read(kept)]
    found = [row for row in read(suspects) if float(row["suspicion"]) >= 0.5 or float(row["outlier"]) > 0.5]
    seem_wrong = [wrong[row["id"]] for row in found]
    print(f"wrong labels: {share(wrong.values()):.1%} of all rows, {share(picked):.1%} of those kept")
    print(f"rows that seem wrong: {len(seem_wrong):,}, of which {share(seem_wrong):.0%} are wrong;", end=" ")
    print(f"they are {sum(seem_wrong) / sum(wrong.values()):.0%} of all wrong ones")
    if any(damaged.values()):
        bad = share([damaged[row["id"]] for row in read(kept)])
        print(f"damaged: {share(damaged.values()):.1%} of all rows, {bad:.1%} of those kept")


if __name__ == "__main__":
    main(*sys.argv[1:])
