"""Directories that are backed up, and backups with parts that were changed."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xscl
from feeds.spool import Spool
from xscl.engine.backup import MANIFEST
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.engine_sink import EngineSink
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


def found(engine: xscl.Engine) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(match.id, match.subscription, match.documents) for match in engine.matches()]


def subscribed(path: Path | None) -> xscl.Engine:
    engine = xscl.Engine(path)
    engine.subscribe_many(SUBSCRIPTIONS.items())
    return engine


def consumed(home: DataDirectory) -> list[tuple[str, str, tuple[str, ...]]]:
    """Consume what waits, end the input, and return all matches."""
    with xscl.Engine(home.database) as engine:
        with Spool(home.spool) as spool:
            Consumer(spool, EngineSink(engine)).run_once()
        engine.flush()
        return sorted(found(engine))


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


def rewritten(path: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    """Change the members of a backup."""
    with tarfile.open(path) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w") as archive:
        for name, image in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(image)
            archive.addfile(info, io.BytesIO(image))


def summed(manifest: dict[str, Any]) -> bytes:
    """A manifest whose sum is right, whatever it says."""
    manifest.pop("sha256", None)
    said = json.dumps(manifest, sort_keys=True).encode()
    return json.dumps({**manifest, "sha256": hashlib.sha256(said).hexdigest()}).encode()


def edited(path: Path, **values: Any) -> None:
    """Change what the manifest says, and its sum."""

    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = summed(json.loads(members[MANIFEST]) | values)

    rewritten(path, change)


def replaced(path: Path, name: str, image: bytes) -> None:
    """Change a part, and what the manifest says of it."""

    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        (part,) = (part for part in manifest["parts"] if part["name"] == name)
        part |= {"size": len(image), "sha256": hashlib.sha256(image).hexdigest()}
        members |= {name: image, MANIFEST: summed(manifest)}

    rewritten(path, change)


def renamed(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    """Give a member another name, in the manifest too."""

    def change(members: dict[str, bytes]) -> None:
        items = [(new if name == old else name, image) for name, image in members.items()]
        members.clear()
        members.update(items)
        manifest = json.loads(members[MANIFEST].replace(old.encode(), new.encode()))
        members[MANIFEST] = summed(manifest)

    return change


def flipped(path: Path, offset: int) -> None:
    image = bytearray(path.read_bytes())
    image[offset] ^= 0xFF
    path.write_bytes(image)


def part_of(path: Path, name: str) -> bytes:
    with tarfile.open(path) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()
