"""Streams of composites keep their numbers over restarts, and numbers are given again alike."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from xscl.documents.composite_ids import CompositeIds
from xscl.store.store import Store


def test_a_restart_changes_no_number_to_come(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with closing(Store(path)) as store:
        streams = CompositeIds(store)
        with store.transaction():
            first, second, third = map(streams.acquire, ("a", "b", "c"))
            streams.save()
        with store.transaction():
            streams.release(third)
            streams.release(first)
        running = streams.acquire("d")
    with closing(Store(path)) as store:
        assert CompositeIds(store).acquire("d") == running == third
        assert second == running + 1
