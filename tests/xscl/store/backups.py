"""Directories that are backed up, and backups with parts that were changed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import xscl
from feeds.spool import Spool
from xscl.engine.backup import MANIFEST
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer

SUBSCRIPTIONS = {
    "twice": "S//a->x FOLLOWED BY{x=y, 9} S//a->y",
    "next": "S//a->x NEXT{x=y} S//a->y",
    "made": "SELECT <p>{x}</p> FROM S//a->x FOLLOWED BY{x=y, 4} S//a->y PUBLISH P",
    "reads": "P//a->x FOLLOWED BY{x=y, 9} S//a->y",
}


def batch(number: int) -> list[xscl.Document]:
    """Three documents, of which some meet those before."""
    return [
        xscl.Document("S", f"d{number}.{i}", number, f"<a>{(number + i) % 3}</a>".encode())
        for i in range(3)
    ]


Matches: TypeAlias = list[tuple[str, str, tuple[str, ...]]]
"""Ids, subscriptions and documents of matches, sorted."""


def found(engine: xscl.Engine) -> Matches:
    """Return all matches when the input has ended."""
    engine.flush()
    return sorted((match.id, match.subscription, match.documents) for match in engine.matches())


def subscribed(path: Path | None) -> xscl.Engine:
    engine = xscl.Engine(path)
    engine.subscribe_many(SUBSCRIPTIONS.items())
    return engine


def found_after(pushes: int) -> Matches:
    """Return the matches of an engine that took so many batches and was never stopped."""
    with subscribed(None) as engine:
        for number in range(pushes):
            engine.push(batch(number))
        return found(engine)


def consume(engine: xscl.Engine, home: DataDirectory) -> None:
    """Consume what waits."""
    with Spool(home.spool) as spool:
        Consumer(spool, engine.ingest).run_once()


def consumed(home: DataDirectory) -> Matches:
    """Consume what waits, end the input, and return all matches."""
    with xscl.Engine(home.database) as engine:
        consume(engine, home)
        return found(engine)


def append(home: DataDirectory, *numbers: int) -> None:
    with Spool(home.spool) as spool:
        for number in numbers:
            spool.append(batch(number), number)


def everything(home: DataDirectory) -> dict[str, bytes]:
    """All files of a data directory, but for locks and the index of a log."""
    files = (path for path in home.path.rglob("*") if path.is_file())
    named = {str(path.relative_to(home.path)): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in named.items()
        if "lock" not in path.name and not name.endswith("-shm")
    }


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write a backup of other members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, image in members:
            archive.writestr(name, image)


def replaced(path: Path, name: str, image: bytes) -> None:
    """Change a part."""
    rewritten(path, {**members_of(path), name: image}.items())


def edited(path: Path, **values: Any) -> None:
    """Change what the manifest says."""
    said = json.loads(members_of(path)[MANIFEST]) | values
    replaced(path, MANIFEST, json.dumps(said).encode())


def renamed(path: Path, old: str, new: str) -> None:
    """Give a member another name."""
    items = members_of(path).items()
    rewritten(path, [(new if name == old else name, image) for name, image in items])


def flipped(path: Path, offset: int) -> None:
    image = bytearray(path.read_bytes())
    image[offset] ^= 0xFF
    path.write_bytes(image)
