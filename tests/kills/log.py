"""The log of what was sent and acknowledged: lines of JSON, each synchronised when it returns.

A line is one write.  A kill may cut it at a page of the file: what follows the last end of a line
was not synchronised, is not read, and is removed by the next writer.  The documents themselves are
in it: whoever reads it needs to know nothing of how they are made.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feeds.documents import Document


@dataclass(frozen=True, slots=True)
class Sent:
    """A document as it was sent."""

    id: str
    ts: int
    xml: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that were appended to the spool together, and whether that was acknowledged."""

    number: int
    documents: tuple[Sent, ...]
    acknowledged: bool = False


class Log:
    """Writes to the log; from any thread."""

    def __init__(self, path: Path) -> None:
        whole = sum(map(len, _lines(path)))
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.ftruncate(self._file, whole)

    def sent(self, batch: int, documents: list[Document]) -> None:
        """Say what is about to be sent."""
        rows = [[document.id, document.timestamp, document.xml.decode()] for document in documents]
        self._write(sent=batch, documents=rows)

    def acknowledged(self, batch: int) -> None:
        self._write(acknowledged=batch)

    def at_work(self) -> None:
        """Say that the service has committed its first batch since it was started."""
        self._write(at_work=time.time())

    def delivered(self, matches: list[str]) -> None:
        """Say which matches a listener has received."""
        self._write(delivered=matches)

    def _write(self, **event: Any) -> None:
        line = json.dumps(event) + "\n"
        written = os.write(self._file, line.encode())
        assert written == len(line)
        os.fsync(self._file)


def batches(path: Path) -> tuple[Batch, ...]:
    """Return the batches that were sent, in the order of their numbers."""
    found: dict[int, tuple[Sent, ...]] = {}
    acknowledged: set[int] = set()
    for event in _events(path):
        if "sent" in event:
            found[event["sent"]] = tuple(Sent(*row) for row in event["documents"])
        elif "acknowledged" in event:
            acknowledged.add(event["acknowledged"])
    return tuple(Batch(n, found[n], n in acknowledged) for n in sorted(found))


def delivered(path: Path) -> set[str]:
    """Return the ids of the matches that a listener has received."""
    return {match for event in _events(path) for match in event.get("delivered", ())}


def at_work(path: Path) -> list[float]:
    """Return the times at which the service had committed its first batch."""
    return [event["at_work"] for event in _events(path) if "at_work" in event]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, _lines(path))


def _lines(path: Path) -> list[bytes]:
    """Return the whole lines."""
    if not path.exists():
        return []
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
