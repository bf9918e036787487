"""The errors of the spool: each names the file or the directory, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feeds.errors import FeedError


class SpoolError(FeedError):
    """The spool cannot do what was asked."""

    def __init__(self, message: str, reason_code: str = "spool") -> None:
        super().__init__(reason_code, message)


class SpoolUnavailable(SpoolError):
    """This user may not read or write a file of the spool, which is not damaged."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read or written ({reason}); let this user read and write it and all"
            f" else of {path.parent}, and try again: nothing that was acknowledged is lost"
        )


class SpoolRemoved(SpoolError):
    """The directory is not there any more."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"the spool {directory} was removed; {_another(directory)}")


class SpoolWentBack(SpoolError):
    """The directory was emptied or replaced: segments that were consumed are not from it."""

    def __init__(self, directory: Path, consumed: int, latest: int) -> None:
        super().__init__(
            f"the spool {directory} has gone backwards: segment {consumed} was consumed from it, "
            f"but its latest is {latest}; {_another(directory)}"
        )


class SegmentGone(SpoolError):
    """There is no such segment, or not any more."""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(
            f"there is no segment {number} in {directory}: it was deleted or never written"
        )


class SegmentsMissing(SpoolError):
    """Segments that were written, and not consumed, are not there any more, nor is their file."""

    def __init__(self, path: Path, first: int, last: int) -> None:
        super().__init__(
            f"{path} is missing ({_named(first, last)}): acknowledged documents were not consumed; "
            f"put the file back, or go on without these documents: {_skipping(path, first, last)}",
            "spool_segment_missing",
        )
        self.path = path
        self.first = first
        self.last = last


class SegmentDamaged(SpoolError):
    """Segments of a file do not hold what was written to them."""

    def __init__(self, path: Path, first: int, last: int, detail: str) -> None:
        super().__init__(
            f"{_named(first, last)} in {path} {'is' if first == last else 'are'} damaged "
            f"({detail}); put the file back from a backup, or go on without their documents: "
            f"{_skipping(path, first, last)}",
            "spool_damaged",
        )
        self.path = path
        self.first = first
        self.last = last


@contextmanager
def accessible(path: Path) -> Iterator[None]:
    """Raise SpoolUnavailable where the block may not use the path, or one that its error names."""
    try:
        yield
    except PermissionError as error:
        where = Path(error.filename or path)
        raise SpoolUnavailable(where, error.strerror or "not permitted") from error


def _another(directory: Path) -> str:
    return (
        "put back the spool that belongs to this store, or go on with an empty one: "
        f"xscl restore --accept --data {shlex.quote(str(directory.parent))}"
    )


def _skipping(path: Path, first: int, last: int) -> str:
    """The command that goes on without segments, of which `path` is the first."""
    numbers = str(first) if first == last else f"{first}-{last}"
    return f"xscl spool skip {numbers} --data {shlex.quote(str(path.parent.parent))}"


def _named(first: int, last: int) -> str:
    return f"segment {first}" if first == last else f"segments {first} to {last}"
