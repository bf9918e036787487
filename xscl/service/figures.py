"""The figures of a service: their declaration, as JSON, and as lines.

This module loads no engine: `xscl status` of a running service reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from xscl.engine.throughput import PushRates
from xscl.ingestion.executors_watch import AGAIN, Away
from xscl.plurals import counted
from xscl.time_format import moment, ticks_of_time, written

_TIMES = ("clock", "texts_since")


def gauge(what: str) -> Any:
    """Declare a figure that the metrics have, too, with what it is."""
    return field(metadata={"what": what})


@dataclass(frozen=True, slots=True)
class WindowState:
    """State kept for windows of one length; `ticks` is None for unbounded ones.

    The state consists of witnesses of joins and instances of operators over time.  `last_day` is
    the number of both that were added within a day of event time: the growth of unbounded state.
    """

    ticks: int | None
    witnesses: int
    instances: int = 0
    last_day: int = 0

    @property
    def length(self) -> str:
        """Return the length in the largest unit of which it is a whole number."""
        if self.ticks is None:
            return "ever"
        for unit, size in _UNITS:
            if self.ticks >= size and not self.ticks % size:
                return f"{self.ticks // size} {unit}"
        return f"{self.ticks} ticks"


_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000))


@dataclass(frozen=True, slots=True)
class ExecutorsStatus:
    """The number of distinct joins on executors, and in the engine (`here`) with filters.

    A query of several joins or disjuncts has as many here.  `away` is None while they are there.
    """

    joins: int
    here: int
    away: Away | None = None

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> ExecutorsStatus:
        """Parse the figures of a status file."""
        away = figures["away"]
        if away is not None:
            away = Away(**{**away, "since": ticks_of_time(away["since"])})
        return cls(figures["joins"], figures["here"], away)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON: times are text."""
        found = asdict(self)
        if self.away is not None:
            found["away"]["since"] = written(self.away.since)
        return found

    def lines(self) -> Iterator[str]:
        """Yield the figures as readable lines."""
        yield f"executors      {counted(self.joins, 'join')}; here: {self.here}"
        if self.away is not None:
            yield f"away           executors, since {moment(self.away.since)}: {self.away.reason}"
            yield (
                f"               documents wait in the spool; Spark is asked every {AGAIN:.0f} s"
                " while some do"
            )
            if self.away.hint:
                yield f"               {self.away.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """The figures of a data directory; those that are a gauge of the metrics say what they are.

    `history` documents were in their feeds at the first poll, and are never `late` (see the
    relations `watermarks` and `late`).  Of the texts those of all documents that arrived since
    `texts_since` are kept, or with None only those that queries need.  `texts_removed` is the
    number of documents that have none any more, and `keeps` says how long texts and matches are
    kept.  `without_secrets` endpoints and feeds wait for a secret that is not on this machine.
    `rates` is None without a running service.  `refused` subscriptions have queries that this
    release refuses.  `executors` is None without a running service that has some.
    """

    subscriptions: int = gauge("Subscriptions that are registered")
    templates: int = gauge("Templates that their joins have")
    joins: int = gauge("Distinct joins, each shared by all who asked for it")
    streams: int = gauge("Streams that are declared, read, or have documents")
    documents: int = gauge("Documents that are known, those not taken left out")
    history: int
    published: int = gauge("Documents that were made of matches")
    clock: int | None
    late: int = gauge("Documents that came behind the watermark")
    rejected: int = gauge("Documents that were not taken and are remembered")
    texts: int = gauge("Texts of documents that are kept")
    text_bytes: int = gauge("Bytes of these texts")
    texts_since: int | None
    texts_removed: int
    keeps: str
    matches: int = gauge("Matches that are kept")
    feeds: int
    feeds_failing: int
    without_secrets: int
    spool: int = gauge("The last segment of the spool")
    position: int = gauge("The last segment that was consumed")
    waiting: int = gauge("Documents in the spool that wait to be consumed")
    lag: float = gauge("Seconds that the oldest of them has waited")
    rates: PushRates | None = None
    windows: tuple[WindowState, ...] | None = None
    refused: int = 0
    executors: ExecutorsStatus | None = None

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> ServiceStatus:
        """Parse the figures of a status file; raises KeyError if one is missing.

        Unknown figures of later releases are ignored.
        """
        found = {one.name: figures[one.name] for one in fields(cls)}
        for name in _TIMES:
            found[name] = None if found[name] is None else ticks_of_time(found[name])
        if (rates := found["rates"]) is not None:
            found["rates"] = PushRates(**rates)
        if (windows := found["windows"]) is not None:
            found["windows"] = tuple(WindowState(**window) for window in windows)
        if (executors := found["executors"]) is not None:
            found["executors"] = ExecutorsStatus.of(executors)
        return cls(**found)

    @property
    def sharing(self) -> float:
        """Return the number of subscriptions for each distinct join, 0 without any."""
        return self.subscriptions / self.joins if self.joins else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON: times are text."""
        figures = asdict(self)
        for name in _TIMES:
            figures[name] = None if figures[name] is None else written(figures[name])
        if self.executors is not None:
            figures["executors"] = self.executors.as_dict()
        through = "direct" if self.executors is None else "spark"
        return {**figures, "consumer": through if self.position else None}

    def lines(self) -> Iterator[str]:
        """Yield the figures as readable lines."""
        if self.executors is not None:
            yield from self.executors.lines()
        yield (
            f"subscriptions  {self.subscriptions} in {counted(self.joins, 'distinct join')} "
            f"of {counted(self.templates, 'template')}"
            + (f", shared {self.sharing:.1f} times" if self.joins else "")
        )
        if self.refused:
            yield (
                f"refused        {counted(self.refused, 'subscription')} without matches:"
                " this release refuses the query, 'xscl subscriptions' says why"
            )
        yield f"streams        {self.streams}"
        late = f"{self.late} late, {self.rejected} rejected"
        yield f"documents      {self.documents} taken in, {late}"
        if self.history:
            yield f"history        {self.history} of these: feeds held them when first polled"
        if self.published:
            yield f"published      {counted(self.published, 'document')} made of matches"
        yield f"kept           {counted(self.texts, 'text')}, {self.text_bytes / 1e6:.1f} MB" + (
            ", as queries need them"
            if self.texts_since is None
            else f", of all that arrived since {moment(self.texts_since)}"
        )
        if self.texts_removed:
            yield f"removed        {counted(self.texts_removed, 'text')} of earlier documents"
        yield f"retention      {self.keeps}"
        if self.clock is not None:
            yield f"clock          {moment(self.clock)}"
        yield f"matches        {self.matches} kept"
        if (rates := self.rates) is not None:
            yield (
                f"rates          {rates.documents_1m:.1f} documents/s, {rates.matches_1m:.1f} "
                f"matches/s over 1 min; {rates.documents_5m:.1f}, {rates.matches_5m:.1f} over 5 min"
            )
        windows = self.windows or ()
        for what, counts in (
            ("witnesses", [(one.witnesses, one.length) for one in windows if one.witnesses]),
            ("instances", [(one.instances, one.length) for one in windows if one.instances]),
        ):
            if counts:
                shown = ", ".join(f"{count} for {length}" for count, length in counts)
                yield f"state          {sum(count for count, _ in counts)} {what}: {shown}"
        for one in windows:
            if one.ticks is None:
                yield f"growth         {one.last_day} a day of what is kept for ever"
        yield f"feeds          {self.feeds}, {self.feeds_failing} with errors"
        if self.without_secrets:
            yield (
                f"secrets        {counted(self.without_secrets, 'secret')} of endpoints and feeds"
                " missing, as after a restore: 'xscl doctor' names them"
            )
        yield (
            f"spool          segment {self.position} of {self.spool} consumed, "
            f"{counted(self.waiting, 'document')} wait{'s' if self.waiting == 1 else ''}"
            + (f", the oldest for {self.lag:.0f} s" if self.waiting else "")
        )
