"""The figures of a service, as status.json has them: those that are gauges, and all as lines.

This module loads no engine: `xscl status` of a running service reads a file.  Times are text.
`history` documents were in their feeds at the first poll, and are never `late` (see the relations
`watermarks` and `late`).  The texts of all documents that arrived since `texts_since` are kept; if
that is None, only the texts that queries need.  `texts_removed` is the number of documents whose
text is deleted, and `keeps` says how long texts and matches are kept.  `without_secrets` endpoints
and feeds wait for a secret that is not on this machine.  `refused` subscriptions have queries that
this release refuses.  `rates` and `executors` are None without a running service, `executors` also
without executors: it counts distinct joins on executors (`joins`), and distinct joins and filters
in the engine (`here`).  A query of several joins or disjuncts has one row for each in the engine.

`windows` has the state that is kept for windows of one length in ticks, None for unbounded ones:
`witnesses` of joins and `instances` of operators over time.  `last_day` is the number of both that
were added within a day of event time: the growth of unbounded state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xscl.ingestion.watches import AGAIN
from xscl.plurals import counted
from xscl.time_format import duration, moment, ticks_of_time

GAUGES: Mapping[str, str] = {
    "subscriptions": "Subscriptions that are registered",
    "templates": "Templates that their joins have",
    "joins": "Distinct joins, each shared by all who asked for it",
    "streams": "Streams that are declared, read, or have documents",
    "documents": "Documents that are known, those not taken left out",
    "published": "Documents that were made of matches",
    "late": "Documents that came behind the watermark",
    "rejected": "Documents that were not taken and are remembered",
    "texts": "Texts of documents that are kept",
    "text_bytes": "Bytes of these texts",
    "matches": "Matches that are kept",
    "spool": "The last segment of the spool",
    "position": "The last segment that was consumed",
    "waiting": "Documents in the spool that wait to be consumed",
    "lag": "Seconds that the oldest of them has waited",
}
"""The figures that are gauges of the metrics, with their descriptions."""


def length(ticks: int | None) -> str:
    """Return the length of a window as text; `ever` if it is unbounded (None)."""
    return "ever" if ticks is None else duration(ticks)


def sharing(of: Mapping[str, Any]) -> float:
    """Return the number of subscriptions for each distinct join, 0 without any."""
    return float(of["subscriptions"] / of["joins"]) if of["joins"] else 0.0


def lines(of: Mapping[str, Any], told: Callable[[int], str] = moment) -> Iterator[str]:
    """Yield the figures as readable lines; raises KeyError for those of another release.

    `told` returns a time in ticks as text.
    """

    def to_second(time: str) -> str:
        ticks = ticks_of_time(time)
        return time if ticks is None else told(ticks)

    if (executors := of["executors"]) is not None:
        away = executors["away"]
        yield from _lines_of_executors(executors, "" if away is None else to_second(away["since"]))
    yield (
        f"subscriptions  {of['subscriptions']} in {counted(of['joins'], 'distinct join')} "
        f"of {counted(of['templates'], 'template')}"
        + (f", shared {sharing(of):.1f} times" if of["joins"] else "")
    )
    if of["refused"]:
        yield (
            f"refused        {counted(of['refused'], 'subscription')} without matches:"
            " this release refuses the query, 'xscl subscriptions' says why"
        )
    yield f"streams        {of['streams']}"
    late = f"{of['late']} late, {of['rejected']} rejected"
    yield f"documents      {of['documents']} taken in, {late}"
    if of["history"]:
        yield f"history        {of['history']} of these: feeds held them when first polled"
    if of["published"]:
        yield f"published      {counted(of['published'], 'document')} made of matches"
    yield f"kept           {counted(of['texts'], 'text')}, {of['text_bytes'] / 1e6:.1f} MB" + (
        ", as queries need them"
        if of["texts_since"] is None
        else f", of all that arrived since {to_second(of['texts_since'])}"
    )
    if of["texts_removed"]:
        yield f"removed        {counted(of['texts_removed'], 'text')} of earlier documents"
    yield f"retention      {of['keeps']}"
    if of["clock"] is not None:
        yield f"clock          {to_second(of['clock'])}"
    yield f"matches        {of['matches']} kept"
    if (rates := of["rates"]) is not None:
        yield (
            f"rates          {rates['documents_1m']:.1f} documents/s, {rates['matches_1m']:.1f} "
            f"matches/s over 1 min; {rates['documents_5m']:.1f}, {rates['matches_5m']:.1f} over"
            " 5 min"
        )
    windows = of["windows"] or ()
    for what in ("witnesses", "instances"):
        counts = [(window[what], length(window["ticks"])) for window in windows if window[what]]
        if counts:
            shown = ", ".join(f"{count} for {of_length}" for count, of_length in counts)
            yield f"state          {sum(count for count, _ in counts)} {what}: {shown}"
    for one in windows:
        if one["ticks"] is None:
            yield f"growth         {one['last_day']} a day of what is kept for ever"
    yield f"feeds          {of['feeds']}, {of['feeds_failing']} with errors"
    if of["without_secrets"]:
        yield (
            f"secrets        {counted(of['without_secrets'], 'secret')} of endpoints and feeds"
            " missing, as after a restore: 'xscl doctor' names them"
        )
    yield (
        f"spool          segment {of['position']} of {of['spool']} consumed, "
        f"{counted(of['waiting'], 'document')} wait{'s' if of['waiting'] == 1 else ''}"
        + (f", the oldest for {of['lag']:.0f} s" if of["waiting"] else "")
    )


def _lines_of_executors(of: Mapping[str, Any], since: str) -> Iterator[str]:
    yield f"executors      {counted(of['joins'], 'join')}; here: {of['here']}"
    if (away := of["away"]) is not None:
        yield f"away           executors, since {since}: {away['reason']}"
        yield (
            f"               documents wait in the spool; Spark is asked every {AGAIN:.0f} s"
            " while some do"
        )
        if away["hint"]:
            yield f"               {away['hint']}"
