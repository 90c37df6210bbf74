"""A page that shows what was kept, what was dropped, and why: plain data first, then a template.

The package can be called: ``gmmatch.report(selection, data, "page.html")`` is `gmmatch.report.report`.
"""

import sys
from types import ModuleType
from typing import Any

from .content import Content, open_content
from .making import find_content, report
from .projection import check_projection
from .records import Report
from .render import check_report, render, write_report
from .summarise import summarise

__all__ = [
    "Content", "Report", "check_projection", "check_report", "find_content", "open_content", "render",
    "report", "summarise", "write_report",
]  # fmt: skip


class _Callable(ModuleType):
    """A module that does its main job when it is called."""

    def __call__(self, *args: Any, **options: Any) -> Report:
        return report(*args, **options)


# `gmmatch.report` is this package, and what users call: importing the one must not hide the other.
sys.modules[__name__].__class__ = _Callable
