"""A backup with a value that no backup has is refused, and the message names it."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from feeds.spool import SegmentDamaged
from tests.xscl.store.backups import (
    consumed,
    edited,
    everything,
    part_of,
    renamed,
    replaced,
    rewritten,
    summed,
)
from xscl.engine.backup import MANIFEST
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.restore import restore
from xscl.store.store_errors import DATABASE, BackupError
from xscl.store.store_lock import UNFINISHED

DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: os.truncate(p, 0), "damaged"),
    "a text": (lambda p: p.write_text("dear friend, " * 99), "damaged"),
    "a manifest of nothing": (
        lambda p: rewritten(p, lambda m: m.update({MANIFEST: b"[]"})),
        "its manifest cannot be read",
    ),
    "another store": (
        lambda p: edited(p, store="other"),
        "manifest.json says store other, and the database has [0-9a-f]{16}",
    ),
    "more commits": (
        lambda p: edited(p, commits=999),
        r"manifest.json says commits 999, and the database has [23]$",
    ),
    "an earlier version": (
        lambda p: edited(p, version=18),
        "version 18, which no release writes",
    ),
    "an earlier position": (
        lambda p: edited(p, position=1),
        "says position 1, and the database has 2$",
    ),
    "a position that waits": (lambda p: edited(p, position=3), "it has segment 3 of the spool"),
    "a position beyond the spool": (
        lambda p: edited(p, position=5),
        r"says position 5, and the last segment of the spool is 4 \(spool/latest\)",
    ),
    "a spool that ends before its segments": (
        lambda p: replaced(p, "spool/latest", b"3\n"),
        "it has segment 4 of the spool, and the latest is 3",
    ),
    "another database": (
        lambda p: replaced(p, DATABASE, b"dear friend, " * 9_999),
        f"the store {DATABASE} is damaged, or it is no xscl store",
    ),
    "a later release": (lambda p: edited(p, version=99), "made by a later release"),
    "a later format": (lambda p: edited(p, format=3), "made by a later release"),
    "a path out of it": (
        lambda p: rewritten(p, renamed("spool/latest", "../../latest")),
        "which no backup does",
    ),
    "no database": (
        lambda p: rewritten(p, renamed(DATABASE, "spool/000000000009.arrows")),
        "parts",
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_a_damaged_backup_touches_nothing(home: DataDirectory, backup: Path, damage: str) -> None:
    spoil, match = DAMAGE[damage]
    spoil(backup)
    before = everything(home)
    with pytest.raises(BackupError, match=match) as refused:
        restore(backup, home, force=True)
    assert everything(home) == before
    assert not (backup.parent / "latest").exists()
    assert str(backup) in refused.value.message
    assert refused.value.hint
    assert "restoring" not in refused.value.message + refused.value.hint, "a directory that is gone"
    with pytest.raises(BackupError, match=match):
        restore(backup, DataDirectory(backup.parent / "elsewhere"))
    assert not (backup.parent / "elsewhere").exists()


NO_NUMBERS: tuple[object, ...] = (-1, 1 << 63, 2**70, 2.0, 2.5, "2", True, None, [2], {})
WRONG: dict[str, tuple[object, ...]] = {
    "format": (0, *NO_NUMBERS[3:]),
    "version": (0, *NO_NUMBERS[3:], -1),
    "commits": (*NO_NUMBERS, UNFINISHED),
    "position": (*NO_NUMBERS, 10**12),
    "store": ("", 2, None, "x" * 101, "\n"),
    "xscl": (2, None, []),
    "made": (2, None),
    "parts": (2, None, {}, [2], [{}], "parts"),
}
WRONG_OF_PARTS: dict[str, tuple[object, ...]] = {
    "name": ("", 2, None, f"{DATABASE}\n", "/etc/passwd", "spool/../x", "spool/1.arrows"),
    "size": (*NO_NUMBERS, 0),
    "sha256": ("", 2, None, "0" * 63, "F" * 64),
}


def _with_manifest(said: dict[str, Any], members: dict[str, bytes]) -> None:
    members[MANIFEST] = summed(said)


def test_each_field_of_a_manifest_is_checked(home: DataDirectory, backup: Path) -> None:
    whole = backup.read_bytes()
    manifest = json.loads(part_of(backup, MANIFEST))
    del manifest["sha256"]
    (first, *parts), before = manifest["parts"], everything(home)
    wrong = [
        *((name, manifest | {name: value}) for name, values in WRONG.items() for value in values),
        *(
            (name, manifest | {"parts": [first | {name: value}, *parts]})
            for name, values in WRONG_OF_PARTS.items()
            for value in values
        ),
        *((name, {key: manifest[key] for key in manifest if key != name}) for name in manifest),
        *(
            (name, manifest | {"parts": [{k: first[k] for k in first if k != name}, *parts]})
            for name in first
        ),
        ("note", manifest | {"note": 2}),
        ("note", manifest | {"parts": [first | {"note": 2}, *parts]}),
        ("parts", manifest | {"parts": [first, first, *parts]}),
        ("parts", manifest | {"parts": parts}),
    ]
    for name, said in wrong:
        backup.write_bytes(whole)
        rewritten(backup, partial(_with_manifest, said))
        with pytest.raises(BackupError, match="is no backup of xscl, or it is damaged") as refused:
            restore(backup, home, force=True)
        told = refused.value.message.removeprefix(str(backup))
        of_parts = name in {"parts", *WRONG_OF_PARTS} and ("part" in told or "checksum" in told)
        assert name in told or of_parts, said
        assert len(told) < 300
        assert everything(home) == before


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b"1" * 5_000,
        b'{"format": NaN, "version": 21}',
        b"\xff",
        b"null",
    ],
)
def test_what_is_no_manifest(home: DataDirectory, backup: Path, text: bytes) -> None:
    rewritten(backup, lambda members: members.update({MANIFEST: text}))
    with pytest.raises(BackupError, match="its manifest cannot be read"):
        restore(backup, home, force=True)


@pytest.mark.parametrize("latest", [b"", b"-1", b"4.0", b"1_0", b" 4", b"9" * 13, b"9" * 22, b"x"])
def test_the_end_of_the_spool_is_a_number(home: DataDirectory, backup: Path, latest: bytes) -> None:
    replaced(backup, "spool/latest", latest)
    with pytest.raises(BackupError, match=r"spool/latest says b'.*', which is no number"):
        restore(backup, home, force=True)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, b"S"])
def test_a_part_is_a_file(home: DataDirectory, backup: Path, kind: bytes) -> None:
    with tarfile.open(backup) as archive:
        (place,) = (m.offset for m in archive if m.name == "spool/latest")
    image = bytearray(backup.read_bytes())
    image[place + 156 : place + 157] = kind
    image[place + 148 : place + 156] = b" " * 8
    image[place + 148 : place + 156] = b"%06o\0 " % sum(image[place : place + 512])
    backup.write_bytes(image)
    with pytest.raises(BackupError, match="is no backup of xscl, or it is damaged"):
        restore(backup, home, force=True)


@pytest.mark.parametrize("size", [-512, -1, 1 << 70, -(1 << 70), (1 << 63) - 1])
def test_the_size_in_a_header(home: DataDirectory, backup: Path, size: int) -> None:
    """A negative one would lead back to the same header."""
    image = bytearray(backup.read_bytes())
    image[124:136] = (size % (1 << 96)).to_bytes(12, "big")
    image[124] = 0o200 if size > 0 else 0o377
    image[148:156] = b" " * 8
    image[148:156] = b"%06o\0 " % sum(image[:512])
    backup.write_bytes(image)
    with pytest.raises(BackupError, match="is no backup of xscl, or it is damaged"):
        restore(backup, home, force=True)


@pytest.mark.parametrize("field", ["number", "rows", "arrived", "body", "crc32", "head"])
def test_a_segment_that_was_damaged_before(
    home: DataDirectory, backup: Path, tmp_path: Path, field: str
) -> None:
    """It may be the only backup: the store is restored, and consumers stop at the segment."""
    name = f"spool/{3:012d}.arrows"
    image = bytearray(part_of(backup, name))
    image[image.index(b"%s=" % field.encode()) + len(field) + 4] ^= 1
    replaced(backup, name, bytes(image))
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    assert restore(backup, elsewhere).damaged == (3,)
    with pytest.raises(SegmentDamaged, match="xscl spool skip 3"):
        consumed(elsewhere)
