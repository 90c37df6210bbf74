"""A command that is ended anywhere, and run again, leaves what it would have left."""

import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from .commands import COMMANDS, EXPERIMENTS, contents, environment, one_sentence, run

CODES = {"KILL": -9, "TERM": 143, "INT": 130}
ALL = COMMANDS | EXPERIMENTS
# By signal: the numbers of the files at which it is sent.
FILES = (("KILL", (1, 2, 3, 5, 9, 17)), ("TERM", (1, 4)), ("INT", (2,)))
FEWER_FILES = (("KILL", (5,)), ("TERM", (2,)))
MOMENTS = dict.fromkeys(("select", "compare", "reproduce", "embed", "corrupt", "suspects", "export"), 20)


def undisturbed(inputs, tmp_path, name):
    """Return what a command leaves in a folder of its own."""
    folder = tmp_path / "undisturbed"
    shutil.copytree(inputs, folder)
    done = run(folder, ALL[name].words)
    assert done.returncode == 0, done.stderr
    return contents(folder)


def end_and_go_on(inputs, tmp_path, name, kill, expected):
    """End a command, look at what it left, go on, and compare; return whether it was ended at all."""
    folder = tmp_path / "-".join(map(str, kill))
    shutil.copytree(inputs, folder)
    command = ALL[name]
    done = run(folder, command.words, kill=kill)
    if done.returncode == 0:
        assert contents(folder) == expected
        return False
    assert done.returncode == CODES[kill[2]], done.stderr
    if kill[2] != "KILL":
        assert "interrupted" in one_sentence(done) or "kept" in done.stderr
    left = contents(folder)
    for output in command.outputs:  # whole or not at all
        assert output not in left or left[output] == expected[output], output
    go_on(folder, command, expected)
    return True


def go_on(folder, command, expected):
    """Run a command again after it was ended; in the end there is what there should be, and no more."""
    for output in command.outputs:  # a folder is never replaced: who wants it again removes it
        if (folder / output).is_dir():
            shutil.rmtree(folder / output)
    again = run(folder, f"{command.words} {command.again}")
    if "it exists already" in again.stderr:  # it was finished, and only could not say so
        again = run(folder, f"{command.words} --overwrite")
    assert again.returncode == 0, again.stderr
    assert contents(folder) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kill", [(3, "after", "KILL"), (2, "before", "TERM")])
def test_a_selection_that_is_ended_goes_on(inputs, tmp_path, kill):
    expected = undisturbed(inputs, tmp_path, "select")
    assert end_and_go_on(inputs, tmp_path, "select", kill, expected)


@pytest.mark.drill
@pytest.mark.parametrize("name", ALL)
def test_ended_at_every_file_that_is_written(inputs, tmp_path, name, told):
    expected = undisturbed(inputs, tmp_path, name)
    cases = 0
    for signal_name, numbers in FILES if name in COMMANDS else FEWER_FILES:
        for number in numbers:
            for when in ("before", "after"):
                if not end_and_go_on(inputs, tmp_path, name, (number, when, signal_name), expected):
                    break
                cases += 1
            else:
                continue
            break  # there are no more files
    assert cases
    told(
        "ended by SIGKILL, SIGTERM or SIGINT as a file takes its place",
        f"`{name}`",
        cases,
        "run again: the same bytes, nothing left over",
    )


@pytest.mark.drill
@pytest.mark.parametrize("name", ALL)
def test_ended_at_random_moments(inputs, tmp_path, name, told):
    command, moments, cases = ALL[name], random.Random(name), 0
    started = time.monotonic()
    expected = undisturbed(inputs, tmp_path, name)
    duration = time.monotonic() - started
    for number in range(MOMENTS.get(name, 6)):
        folder = tmp_path / str(number)
        shutil.copytree(inputs, folder)
        process = subprocess.Popen(
            [sys.executable, "-m", "gmmatch", *command.words.split()], cwd=folder, env=environment(folder),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(moments.uniform(0.0, 1.0) * duration)
        chosen = moments.choice(list(CODES))
        process.send_signal(signal.Signals[f"SIG{chosen}"])
        _, message = process.communicate(timeout=1800)
        # A process that has not begun yet knows nothing of signals, and says nothing.
        codes = (0, CODES[chosen], -signal.Signals[f"SIG{chosen}"], 1)
        assert process.returncode in codes, (chosen, process.returncode, message)
        assert "Traceback" not in message or "KeyboardInterrupt" in message, message
        go_on(folder, command, expected)
        cases += 1
    told("ended at random moments", f"`{name}`", cases, "run again: the same bytes, nothing left over")
