"""An interrupt that a library swallows ends a command all the same."""

import signal
import subprocess
import sys

import pytest

CODE = """
import os, signal, sys
from gmmatch import cli
from gmmatch.cli import friendly

@friendly.friendly
def command():
    try:
        os.kill(os.getpid(), signal.{name})
        for _ in range(1000): pass
    except BaseException:
        raise ValueError("what the library made of it")

import gmmatch.cli.commands
gmmatch.cli.commands.app = lambda: command()
import typer
try:
    cli.main()
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_that_a_library_turned_into_an_error_is_one(name: str, code: int) -> None:
    def listen() -> None:  # a shell that runs this in the background has it ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)

    done = subprocess.run(
        [sys.executable, "-c", CODE.format(name=name)],
        capture_output=True, text=True, check=False, preexec_fn=listen,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "gmmatch: interrupted\n")
