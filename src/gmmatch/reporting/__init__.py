"""A page that shows what was kept, what was dropped, and why: plain data first, then a template."""

from .content import Content, find_content, open_content
from .map import check_projection
from .page import check_report, render, report, write_report
from .summarise import summarise
from .summary import Report

__all__ = [
    "Content", "Report", "check_projection", "check_report", "find_content", "open_content", "render",
    "report", "summarise", "write_report",
]  # fmt: skip
