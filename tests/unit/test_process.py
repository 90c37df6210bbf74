"""What the library leaves alone in the process that imports it."""

import subprocess
import sys

LEFT_ALONE = """
import ctypes, faulthandler, signal
from unittest import mock
import numpy as np

class Watched(ctypes.CDLL):
    def __getattr__(self, name):
        assert name not in ("mallopt", "malloc_trim", "signal", "sigaction"), name
        return super().__getattr__(name)


handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
with mock.patch.object(ctypes, "CDLL", Watched):
    import gmmatch

    rows = np.random.default_rng(0).normal(size=(80, 4))
    gmmatch.select(rows, keep=8, labels=np.arange(80) % 2, memory="2GB")
assert {number: signal.getsignal(number) for number in signal.valid_signals()} == handlers
assert not faulthandler.is_enabled()
"""


def test_a_selection_changes_neither_signal_handlers_nor_malloc():
    done = subprocess.run([sys.executable, "-c", LEFT_ALONE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
