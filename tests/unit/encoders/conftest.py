from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _cache_of_its_own(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("GMMATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
