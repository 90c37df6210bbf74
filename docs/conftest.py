"""Pages whose examples take long are slow tests."""

from pathlib import Path

import pytest

SLOW = ("python.md", "training.md", "howto/cluster.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the examples of slow pages."""
    docs = Path(__file__).parent
    for item in items:
        if item.path in {docs / name for name in SLOW}:
            item.add_marker(pytest.mark.slow)
