"""Pages whose examples take long are slow tests."""

import pytest

SLOW = ("python.md",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the examples of slow pages."""
    for item in items:
        if item.path.name in SLOW:
            item.add_marker(pytest.mark.slow)
