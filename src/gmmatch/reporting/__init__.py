"""A page that shows what was kept, what was dropped, and why: plain data first, then a template."""

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
