"""A backup with a value that no backup has is refused, and the message names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from feeds.errors import SegmentDamaged
from tests.xscl.store.backups import consumed, edited, everything, members_of, renamed, replaced
from xscl.engine.backup import MANIFEST
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.restore import restore
from xscl.store.store_errors import DATABASE, BackupError

DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: os.truncate(p, 0), "damaged"),
    "a text": (lambda p: p.write_text("dear friend, " * 99), "damaged"),
    "a manifest of nothing": (
        lambda p: replaced(p, MANIFEST, b"[]"),
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
        "says position 5, and the last segment of the spool is 4$",
    ),
    "a spool that ends before its segments": (
        lambda p: edited(p, latest=3),
        "it has segment 4 of the spool, and the latest is 3",
    ),
    "another database": (
        lambda p: replaced(p, DATABASE, b"dear friend, " * 9_999),
        f"the store {DATABASE} is damaged, or it is no xscl store",
    ),
    "a later release": (lambda p: edited(p, version=99), "made by a later release"),
    "a later format": (lambda p: edited(p, format=4), "made by a later release"),
    "a path out of it": (
        lambda p: renamed(p, f"spool/{3:012d}.arrows", "../../latest"),
        "which no backup does",
    ),
    "no database": (lambda p: renamed(p, DATABASE, "spool/000000000009.arrows"), "parts"),
    "a deeply nested manifest": (
        lambda p: replaced(p, MANIFEST, b"[" * 60_000),
        "its manifest cannot be read",
    ),
    "a manifest of other bytes": (
        lambda p: replaced(p, MANIFEST, b"\xff"),
        "its manifest cannot be read",
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


@pytest.mark.parametrize("field", ["number", "rows", "arrived", "body", "crc32", "head"])
def test_a_segment_that_was_damaged_before(
    home: DataDirectory, backup: Path, tmp_path: Path, field: str
) -> None:
    """It may be the only backup: the store is restored, and consumers stop at the segment."""
    name = f"spool/{3:012d}.arrows"
    image = bytearray(members_of(backup)[name])
    image[image.index(b"%s=" % field.encode()) + len(field) + 4] ^= 1
    replaced(backup, name, bytes(image))
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    assert restore(backup, elsewhere).damaged == (3,)
    with pytest.raises(SegmentDamaged, match="xscl spool skip 3"):
        consumed(elsewhere)
