"""The names in the product, which several tests ask for."""

from __future__ import annotations

import pytest

from tests.project import ROOT
from tests.structure.docstrings import Names


@pytest.fixture(scope="session")
def names() -> Names:
    """Read once: to parse all modules takes a second."""
    return Names(ROOT)
