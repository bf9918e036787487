"""Controls: the entries of the log that change what cells evaluate, and their form as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import TypeAlias

NOWHERE = -1
"""In place of the cell that answers with matches: it has been told so by an earlier entry."""


@dataclass(frozen=True, slots=True)
class DeclareStream:
    """The declaration of a stream, for all cells; `attributes` are its leaves with their types."""

    name: str
    lateness: int
    live: bool
    attributes: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class Register:
    """A registration: the cell that answers with its matches, and those with a silent copy.

    Cells know a subscription by its key, which no other change of the catalog affects.  It sees
    documents from the number `since` on.  With `first` it has a history that begins with that
    document: its matches before `since`, and before the time `clock`, are in the driver, and the
    documents are beside the entry.  Silent copies that are made later have the cell `NOWHERE`.  A
    subscription on the grid is in all cells of a group, `width` cells from `cell` on, and its
    designated join is `by` these definitions.
    """

    key: str
    query: str
    language: str
    updates: bool
    since: int
    cell: int
    silent: tuple[int, ...] = ()
    first: int | None = None
    clock: int = 0
    width: int = 1
    by: tuple[str, str] | None = None

    @property
    def answering(self) -> range:
        """The cells that answer with its matches."""
        return range(self.cell, self.cell + self.width)


@dataclass(frozen=True, slots=True)
class CopyPublisher:
    """A silent copy of a subscription that was registered in an earlier entry.

    The cell's state is made from the log anew, as if the copy had been there since `registered`.
    """

    key: str
    cell: int
    registered: int


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit, a pause or a resumption: the new query of a subscription, in all cells that have it.

    Another query sees documents from the number `since` on.
    """

    key: str
    query: str
    language: str
    updates: bool
    paused: bool
    since: int


@dataclass(frozen=True, slots=True)
class Remove:
    """The removal of a subscription, wherever it is, with all that read what only it publishes."""

    key: str


@dataclass(frozen=True, slots=True)
class Split:
    """A new cell, `target`, that was the cell `source` up to this entry; nothing else is in it.

    From here on it answers with the matches of `keys`, and `source` with those of its others.  Both
    have the `publishers`, silent where the other one answers with their matches.
    """

    source: int
    target: int
    keys: tuple[str, ...]
    publishers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """The end of the cell `source`: `target` answers with the matches of its subscriptions.

    `target` has silent copies of `keys`.  The others are registered there in the same entry, with
    the past that they have had.
    """

    source: int
    target: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """Documents of an earlier entry that no cell evaluates, by their numbers.

    They end the processes that read them.  No answer to that entry was committed before this one.
    """

    entry: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Erase:
    """The end of all streams with a prefix, which no subscription reads, and of their documents."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Flush:
    """The end of the input: all epochs close, and all deadlines pass."""


Control: TypeAlias = (
    DeclareStream | Register | CopyPublisher | Edit | Remove | Split | Merge | Skip | Erase | Flush
)
_KINDS: dict[str, type[Control]] = {
    "stream": DeclareStream,
    "register": Register,
    "copy": CopyPublisher,
    "edit": Edit,
    "remove": Remove,
    "split": Split,
    "merge": Merge,
    "skip": Skip,
    "erase": Erase,
    "flush": Flush,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(controls: Iterable[Control]) -> bytes:
    """Return controls as JSON."""
    rows = [{"kind": _NAMES[type(one)], **asdict(one)} for one in controls]
    return json.dumps(rows, ensure_ascii=False).encode()


def decode(content: bytes) -> tuple[Control, ...]:
    """Return controls from JSON; raises ValueError, KeyError or TypeError if it is damaged."""
    return tuple(map(_control, json.loads(content)))


def _control(row: dict[str, object]) -> Control:
    kind = _KINDS[str(row.pop("kind"))]
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    return kind(**values)  # type: ignore[arg-type]  # as it was written


def names_streams(control: Control, prefix: str, gone: Collection[str]) -> bool:
    """Return whether a control names a stream with a prefix: by declaration, or in what is gone."""
    if isinstance(control, DeclareStream):
        return control.name.startswith(prefix)
    return isinstance(control, Register | Edit) and control.key in gone and prefix in control.query
