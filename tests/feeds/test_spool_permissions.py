"""A spool of which a part may not be read or written, or that was removed: the error says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.errors import SegmentDamaged, SpoolError, SpoolUnavailable
from feeds.spool import Spool
from tests.unprivileged import unprivileged

FILE = "000000000001.arrows"
DOCUMENT = Document("S", "d", 1, b"<a/>")


def written(directory: Path) -> Path:
    """Write a spool with two segments and a list of absent ones; return its directory."""
    with Spool(directory) as spool:
        for _ in range(3):
            spool.append([DOCUMENT], 1)
        path = directory / FILE
        image = path.read_bytes()
        path.write_bytes(image.replace(b"<a/>", b"<b/>", 1))
        spool.skip(1, 1)
    return directory


def begin(directory: Path) -> None:
    Spool(directory).close()


def read(directory: Path) -> None:
    spool = Spool(directory, read_only=True)
    spool.numbers(0)
    spool.read(3)


def skip(directory: Path) -> None:
    with Spool(directory) as spool:
        spool.skip(2, 2)


CASES: list[tuple[Callable[[Path], None], str, int, str]] = [
    (begin, FILE, 0o400, FILE),
    (begin, FILE, 0o000, FILE),
    (begin, "latest", 0o000, "latest"),
    (begin, ".", 0o500, "latest.tmp"),
    (begin, ".", 0o000, "latest"),
    (read, FILE, 0o000, FILE),
    (read, "latest", 0o000, "latest"),
    (read, "absent", 0o000, "absent"),
    (skip, FILE, 0o000, FILE),
]


@pytest.fixture
def closed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A spool whose modes are as they were after the test."""
    directory = written(tmp_path / "spool")
    yield directory
    directory.chmod(0o700)


@pytest.mark.parametrize(("use", "name", "mode", "named"), CASES)
def test_what_may_not_be_used_is_named_with_what_to_do(
    closed: Path, use: Callable[[Path], None], name: str, mode: int, named: str
) -> None:
    kept = {one.name: one.read_bytes() for one in closed.iterdir()}
    rights = (closed / name).stat().st_mode
    (closed / name).chmod(mode)
    with unprivileged(), pytest.raises(SpoolUnavailable) as raised:
        use(closed)
    message = str(raised.value)
    assert message.startswith(f"{closed / named} cannot be read or written (Permission denied)")
    assert "let this user read and write it" in message
    (closed / name).chmod(rights)
    assert {one.name: one.read_bytes() for one in closed.iterdir()} == kept
    begin(closed)
    read(closed)


def test_a_segment_that_may_not_be_read_is_not_taken_for_a_damaged_one(closed: Path) -> None:
    """Else the error would tell its reader to go on without its documents."""
    spool = Spool(closed, read_only=True)
    with pytest.raises(SegmentDamaged):
        spool.read(1)
    (closed / FILE).chmod(0)
    with unprivileged(), pytest.raises(SpoolUnavailable):
        spool.read(3)
    (closed / FILE).chmod(0o600)
    assert spool.read(3) == [DOCUMENT]


def test_what_may_not_be_written_is_not_erased(closed: Path) -> None:
    with Spool(closed) as spool:
        closed.chmod(0o500)
        with unprivileged(), pytest.raises(SpoolUnavailable, match=rf"{FILE}.tmp cannot be"):
            spool.erase("S")
        closed.chmod(0o700)
        assert spool.erase("S") == 2


def test_a_spool_that_is_removed_while_it_is_open_says_what_to_do(closed: Path) -> None:
    for use in (Spool.latest, Spool.refuse_more, lambda spool: spool.read(3)):
        spool = Spool(closed, read_only=True)
        closed.rename(closed.parent / "away")
        with pytest.raises(SpoolError, match=rf"the spool {closed} was removed; put back the sp"):
            use(spool)
        (closed.parent / "away").rename(closed)
        assert spool.read(3) == [DOCUMENT]


@pytest.mark.parametrize(("name", "mode"), [(".", 0o000), (".", 0o500), ("latest", 0o000)])
def test_what_may_not_be_appended_leaves_no_gap(closed: Path, name: str, mode: int) -> None:
    with Spool(closed) as spool:
        (closed / name).chmod(mode)
        (closed / "latest.tmp").mkdir()
        with unprivileged(), pytest.raises(SpoolError, match="segment 4 cannot be written to"):
            spool.append([DOCUMENT], 1)
        (closed / name).chmod(0o700)
        (closed / "latest.tmp").rmdir()
        assert spool.append([DOCUMENT], 1) == 4
        assert spool.read(4) == [DOCUMENT]
