"""Make the pages of docs/results: `make results`, or some of them: `make results ONLY="believe teach"`.

``python -m benchmarks.results [NAME ...] [--list] [--quick]`` runs one step after another, the cheapest
first. Every step keeps what it measured, in benchmarks/cells, in the CSV files of docs/results and in `out/`;
a rerun does only what is missing or of other picks, and can be stopped at any time. At the end README's table
and the list of pages in docs/results/index.md follow.
GMMATCH_OLD names the `src` folder of version 0.2.0; without it the comparison with that version is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.check_figures import RESULTS, digest, write_index, write_readme


@dataclass(frozen=True)
class Step:
    """A command, and the minutes that it takes on two cores if everything is measured."""

    command: tuple[str, ...]
    minutes: int


def _module(name: str, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"benchmarks.{name}", *more)


def _paper(name: str, minutes: int) -> Step:
    return Step(_module("_paper", name), minutes)


_OLD = ("--old", os.environ["GMMATCH_OLD"]) if "GMMATCH_OLD" in os.environ else ()
STEPS = {
    "toy": _paper("toy", 1),
    "bounds": _paper("bounds", 1),
    "linear-probe": _paper("linear-probe", 2),
    "convergence": _paper("convergence", 5),
    "centres": Step(_module("centres"), 10),
    "curate": Step(_module("curate"), 20),
    "stability": Step(_module("stability"), 20),
    "cifar10": _paper("cifar10", 20),
    "cifar10-neighbours": _paper("cifar10-neighbours", 20),
    "cifar10-converged": _paper("cifar10-converged", 25),
    "unlabelled": Step(_module("teach", "--study", "unlabelled", *_OLD), 30),
    "performance": Step(("make", "bench"), 40),
    "ablation": Step(_module("ablation"), 40),
    "networks": Step(_module("networks"), 240),
    "network-transfer": _paper("network-transfer", 45),
    "fashion-mnist": _paper("fashion-mnist", 60),
    "domain-transfer": _paper("domain-transfer", 70),
    "teach": Step(_module("teach", "--study", "labelled", "report", *_OLD), 180),
    "believe": Step(_module("believe", "--sets", "choose", "report"), 240),
}
_QUICK = {
    "believe": ("--quick",),
    **dict.fromkeys(("teach", "ablation", "stability", "networks"), ("--seeds", "0")),
}
_MADE = re.compile(r"\*\*Picks\*\* `[0-9a-f]+`")


def run(name: str, quick: bool) -> int:
    """Run a step, name the picks on its page, and return the command's exit code."""
    step, start = STEPS[name], time.perf_counter()
    done = subprocess.run([*step.command, *(_QUICK.get(name, ()) if quick else ())], check=False)
    if done.returncode == 0:
        _name_digest(RESULTS / f"{name}.md")
    print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
    return done.returncode


def _name_digest(page: Path) -> None:
    """Write the digest of today's picks into a page, behind its first paragraph if it has none."""
    text, line = page.read_text(encoding="utf-8"), f"**Picks** `{digest()}`"
    if _MADE.search(text):
        text = _MADE.sub(line, text)
    else:
        title, first, rest = text.split("\n\n", 2)
        text = "\n\n".join([title, first, line, rest])
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STEPS))
    parser.add_argument("--quick", action="store_true", help="fewer draws and seeds")
    parser.add_argument("--list", action="store_true", help="print steps and minutes; run nothing")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(STEPS))
    if unknown:
        parser.error(f"there is no step {', '.join(unknown)}; steps: {', '.join(STEPS)}")
    names = sorted(asked.names or STEPS, key=lambda name: STEPS[name].minutes)
    if asked.list:
        print("\n".join(f"{name}: some {STEPS[name].minutes} min" for name in names))
        return
    failed = [name for name in names if run(name, asked.quick)]
    write_index()
    write_readme()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; run it again to go on where it stopped")


if __name__ == "__main__":
    main()
