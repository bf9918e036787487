"""An engine with feeds of a scripted server, polled by a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.xscl.polling.scripted import Place, Server, placed


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Iterator[Place]:
    with placed(tmp_path, server) as made:
        yield made
