"""A page that shows what was kept, what was dropped, and why: plain data first, then a template."""

from .api import report
from .content import Content, find_content, open_content
from .map import check_projection
from .page import check_report, render, write_report
from .repeat import opened_as
from .summarise import summarise
from .summary import Report

__all__ = [
    "Content", "Report", "check_projection", "check_report", "find_content", "open_content", "opened_as",
    "render", "report", "summarise", "write_report",
]  # fmt: skip
