"""Retention: how long an engine keeps data that no query needs any more.

Queries determine what must be kept: the witnesses of documents within windows, and the texts of
documents that have witnesses, are part of a match, or wait in temporal operators.  Retention never
drops these.  It bounds the rest: the texts of all documents (for `try_query`, `why` and
`subscribe(since=...)`), old matches, and the identities by which a repeated document is recognised.

The age of a document counts from its arrival: the time at which its segment of the spool was
written, which is part of the input, or without a spool the engine's clock.  So eviction depends on
the input only, and a feed of old items is kept as long as any other (docs/decisions/retention.md).
`xscl.engine.eviction` evicts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from templates.model.join_graph import INFINITE
from xscl.errors import XsclError
from xscl.language.parser import parse_window
from xscl.store.queries.documents import count_texts
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store
from xscl.time_format import duration

FOR_EVER = "inf"
DAY = 86_400_000_000
TEXT_BYTES = 2 << 30
ROWS = 10_000

Age: TypeAlias = str | int | None
"""A duration (`"30 d"`), ticks, or None and `"inf"`: for ever."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages up to which data are kept, in ticks; None: without limit.

    `history`: the texts of all documents, of published ones too, as long as all texts together have
    at most `text_bytes` bytes; the oldest go first.  Texts that queries need count, but stay.
    `matches`: results; `engine.matches()` begins with the oldest kept one.
    `identities`: ids of documents that nothing refers to.  Within this age the same document again
    changes nothing, and other content under its id is a new version; later it is new.
    `rows`: the largest number of rows of `late` and `rejected`; the newest stay.
    """

    history: int | None = 0
    text_bytes: int | None = TEXT_BYTES
    matches: int | None = None
    identities: int | None = None
    rows: int = ROWS

    @classmethod
    def of(
        cls,
        *,
        history: Age = 0,
        text_bytes: int | None = TEXT_BYTES,
        matches: Age = None,
        identities: Age = None,
        rows: int = ROWS,
    ) -> Retention:
        """Return a retention whose ages may be durations: `Retention.of(history="30 d")`."""
        return cls(ticks_of(history), text_bytes, ticks_of(matches), ticks_of(identities), rows)

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not 0 <= value < INFINITE:
                raise XsclError(
                    f"{name} cannot be {value}", hint="a duration such as 30 d, or a whole number"
                )

    @property
    def everything(self) -> bool:
        """True if texts are kept that no query needs."""
        return self.history != 0 and self.text_bytes != 0


SERVICE = Retention(history=30 * DAY, matches=90 * DAY, identities=365 * DAY)
"""The retention of a data directory unless another one is set."""


def ticks_of(age: Age) -> int | None:
    """Return an age in ticks, None for no limit; raises QueryError for an invalid duration."""
    if not isinstance(age, str):
        return age
    return None if age.strip().lower() == FOR_EVER else parse_window(age)


def changed_retention(
    before: Retention | None, history: Age = None, matches: Age = None
) -> Retention:
    """Return the new retention of a data directory: the old one, with the given changes.

    `before` is None if there was none; an age is None where it stays.
    """
    given = {"history": history, "matches": matches}
    changes: dict[str, Any] = {n: ticks_of(age) for n, age in given.items() if age is not None}
    return replace(SERVICE if before is None else before, **changes)


def described(retention: Retention) -> str:
    """Return a retention in words: `texts 30 d from arrival and at most 2.1 GB, matches 90 d`."""
    size = retention.text_bytes
    texts = "as queries need them"
    if retention.everything:
        most = "" if size is None else f" and at most {size / 1e9:.1f} GB"
        texts = f"{_age(retention.history)} from arrival{most}"
    return f"texts {texts}, matches {_age(retention.matches)}"


def _age(ticks: int | None) -> str:
    return "for ever" if ticks is None else duration(ticks)


# -- In the store --------------------------------------------------------------------------


def load_retention(store: Store) -> Retention | None:
    """Return the recorded retention of a store, None if there is none."""
    found = {
        row["key"].removeprefix("keep_"): row["value"]
        for row in rows_of(store, "meta")
        if row["key"].startswith("keep_")
    }
    if not found:
        return None
    ages: dict[str, Any] = {
        key: None if value == INFINITE else value for key, value in found.items()
    }
    return Retention(**{**ages, "rows": found["rows"]})


def save_retention(store: Store, retention: Retention) -> None:
    """Record the retention of a store, for every process that opens it."""
    values = {name: INFINITE if v is None else v for name, v in asdict(retention).items()}
    store.set_meta(**{f"keep_{name}": value for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class RetainedTexts:
    """The kept texts of a store: their number, their bytes, and since when they are complete.

    `since` is the arrival of the oldest; None: only texts that queries need are kept.  `removed`
    documents are known without a text.
    """

    texts: int
    text_bytes: int
    since: int | None
    removed: int


def retained_texts(store: Store) -> RetainedTexts:
    """Return the kept texts of a store; the cost does not depend on their bytes."""
    texts, known, since = count_texts(store, store.progress("texts_from"))
    told = load_retention(store)
    everything = told is not None and told.everything
    oldest = since if everything else None
    return RetainedTexts(texts, store.progress("text_bytes"), oldest, known - texts)
