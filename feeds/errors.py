"""The errors of reading feeds and documents.

    FeedError
    ├── MalformedDocument    the bytes are not XML, or more XML than we take
    ├── NotAFeed             readable, but neither RSS nor Atom nor JSON Feed
    ├── NotAList             readable, but neither OPML nor a list of addresses
    └── SpoolError           the spool cannot do what was asked
        ├── SpoolUnavailable     its files may not be read or written
        ├── SpoolRemoved         the directory is not there any more
        ├── SpoolWentBack        it was emptied or replaced
        ├── SegmentGone          a segment was deleted or never written
        ├── SegmentsMissing      segments were lost with their file
        └── SegmentDamaged       segments are not what was written

A fetch or a file without usable content is an expected outcome: a value
(`fetch.Failed`, `files.RejectedFile`), not an exception.
"""

from __future__ import annotations

import shlex
from pathlib import Path


class FeedError(Exception):
    """The root of this package's errors; `reason_code` is stable, the message is for people.

    `args` stay the arguments of the constructor, which `BaseException` calls again to unpickle an
    error: worker processes read segments and parse documents, too.  So arguments are positional.
    """

    def __init__(self, reason_code: str, message: str) -> None:
        self.reason_code = reason_code
        self.message = message

    def __str__(self) -> str:
        return self.message


class MalformedDocument(FeedError):
    """The bytes are not an XML document within the limits.

    `reason_code` is one of `xml_syntax`, `xml_entities`, `xml_depth`,
    `xml_size`, `xml_elements`, `xml_chars`, `xml_encoding`; for a JSON feed it
    is `json_syntax`.  `line` and `column` count from 1; 0 means unknown.
    """

    def __init__(self, reason_code: str, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason_code, message)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return place + self.message


class NotAFeed(FeedError):
    """The bytes can be read, but no feed format is recognised in them."""

    def __init__(self, message: str) -> None:
        super().__init__("not_a_feed", message)


class NotAList(FeedError):
    """The bytes can be read, but they are no list of feeds."""

    def __init__(self, message: str) -> None:
        super().__init__("not_a_list", message)


# --- the spool: each error names the file or the directory, and what to do ---


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
    """The directory was emptied or replaced: its latest number is below a consumed one."""

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


def _another(directory: Path) -> str:
    return (
        "put back the spool that belongs to this store, or go on with an empty one: "
        f"xscl restore --accept --data {shlex.quote(str(directory.parent))}"
    )


def _skipping(path: Path, first: int, last: int) -> str:
    """Return the command that gives up segments, the first of which is in the file `path`."""
    numbers = str(first) if first == last else f"{first}-{last}"
    return f"xscl spool skip {numbers} --data {shlex.quote(str(path.parent.parent))}"


def _named(first: int, last: int) -> str:
    return f"segment {first}" if first == last else f"segments {first} to {last}"
