"""The compiled loops under the sanitizers of addresses and of undefined behaviour."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = ("-O1", "-g", "-std=c11", "-ffp-contract=off", "-shared", "-fPIC")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
RUN = """
import pathlib, sys
from gmmatch.compute import loops
from tests.unit.compute.test_loops import KINDS, cases, outcome

build, calls = loops.load(pathlib.Path(sys.argv[1])), 0
for kind in KINDS:
    for seed in range(60):
        for loop, *given in cases(seed, kind):
            assert outcome(build, loop, given) == outcome(None, loop, given), loop
            calls += 1
print(calls)
"""


@pytest.mark.drill
def test_the_loops_touch_nothing_that_is_not_theirs(tmp_path, told):
    compiler = shutil.which("cc")
    runtime = (
        compiler
        and subprocess.run(
            [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    if not runtime or not os.path.isabs(runtime):
        pytest.skip("no compiler with sanitizers is there")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file = tmp_path / "base.so"
    module.compile_loops([compiler], [file], flags=(*FLAGS, *SANITIZERS))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(file)],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told("memory of others", "compiled loops", int(done.stdout), "none touched, and nothing undefined done")
