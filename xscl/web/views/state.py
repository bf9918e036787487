"""The status page, the theme and static files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Form, Header, Query, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from xscl.client import StatusSample
from xscl.client.bodies import ticks_of
from xscl.delivery.syndication.syndicated_feed import is_unchanged
from xscl.drawing.charts import draw_series
from xscl.drawing.svg import Picture
from xscl.plurals import counted
from xscl.polling.arrival_clock import way_back
from xscl.polling.feed_repository import ticks
from xscl.service.figures import length
from xscl.service.problems import not_found
from xscl.service.status import SPANS
from xscl.store.queries.status import delivery_counts
from xscl.time_format import ticks_of_time
from xscl.web.pages import AskedByOperator, Back, on_site, router
from xscl.web.query_words import NAME as query_words_name
from xscl.web.query_words import query_words
from xscl.web.rendering import DENSITIES, DENSITY, THEME, THEMES, static, time_element

YEAR = 365 * 86_400
_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}


REJECTED = "/witnesses?sql=SELECT+*+FROM+rejected+LIMIT+50"
LATE = "/witnesses?sql=SELECT+stream,late,lateness+FROM+watermarks+WHERE+late+%3E+0"
# The relation `late` has only documents that a subscription may have missed: it could be empty.


_FIGURES_OVER_TIME: tuple[tuple[str, str, Callable[[StatusSample], float]], ...] = (
    ("Documents taken in", "a second", lambda one: one.documents),
    ("Matches", "a second", lambda one: one.matches),
    ("Documents waiting", "documents", lambda one: one.waiting),
    ("Latency, p50", "s", lambda one: one.p50),
    ("Latency, p95", "s", lambda one: one.p95),
    ("Lag", "s", lambda one: one.lag),
    ("Memory", "MB", lambda one: one.memory / 1e6),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the status page; `bad` highlights it, and `see` is a link to its cause."""

    name: str
    value: str
    note: str = ""
    bad: bool = False
    see: str = ""


@router.get("/status")
def status(
    asked: AskedByOperator, span: Annotated[Literal["hour", "day"], Query()] = "hour"
) -> Response:
    """Show the figures of the status file, and their course over the last hour or day."""
    written = asked.app.home.read_status() or {}
    begin = asked.app.clock.now() - SPANS[span]
    deliveries = asked.with_store(delivery_counts)
    return asked.page(
        "status.html",
        figures=list(_figures(written)) if written else [],
        written=ticks_of_time(written["written"]) if written else None,
        span=span,
        series=list(_series(asked.app.figures.series.since(begin))),
        windows=written.get("windows") or (),
        length=length,
        deliveries=deliveries,
    )


def _series(samples: Sequence[StatusSample]) -> Iterator[Picture]:
    """Yield the pictures of the figures over time, none before there are two samples."""
    if len(samples) < 2:
        return
    for name, unit, value in _FIGURES_OVER_TIME:
        yield draw_series(name, unit, [(ticks_of(sample.at), value(sample)) for sample in samples])


def _figures(of: dict[str, Any]) -> Iterator[Figure]:
    lag = float(of["lag"])
    yield Figure("Waiting", f"{of['waiting']:,}", f"the oldest for {lag:.0f} s", lag > 60)
    yield Figure("Matches kept", f"{of['matches']:,}")
    history = f"{of['history']:,} of them history of feeds"
    yield Figure("Documents taken in", f"{of['documents']:,}", history)
    yield Figure("Documents published", f"{of['published']:,}", "made of matches")
    yield Figure("Subscriptions", f"{of['subscriptions']:,}", counted(of["joins"], "join"))
    failing = of["feeds_failing"]
    yield Figure("Feeds", f"{of['feeds']:,}")
    yield Figure("Feeds with errors", f"{failing:,}", "", failing > 0, "/feeds")
    if lost := of["without_secrets"]:
        note = "endpoints and feeds that wait for one, as after a restore"
        yield Figure("Without secrets", f"{lost:,}", note, True, "/operator")
    yield Figure("Streams", f"{of['streams']:,}")
    yield Figure("Threads", f"{of['threads']:,}", "of Python")
    rejected, late = of["rejected"], of["late"]
    yield Figure("Documents rejected", f"{rejected:,}", "could not be read", rejected > 0, REJECTED)
    yield Figure("Documents late", f"{late:,}", "later than allowed", late > 0, LATE)
    yield Figure("Texts kept", f"{of['texts']:,}", f"{of['text_bytes'] / 1e6:,.1f} MB")
    if executors := of.get("executors"):
        local = f"{executors['here']:,} here"
        yield Figure("Joins on executors", f"{executors['joins']:,}", local)
        if away := executors["away"]:
            waits = "documents wait in the spool until Spark is there"
            note = ". ".join(filter(None, (away["reason"], away["hint"], waits)))
            since = Markup("since {}").format(time_element(away["since"]))
            yield Figure("Executors away", since, note, True)
    if stalled := of.get("stalled"):
        note = f"segment {stalled['segment']} waits, and nothing was committed"
        yield Figure("Consumer stalled", f"{stalled['seconds']:,.0f} s", note, True)
    state, ahead = of.get("wall_clock", "ok"), of.get("wall_clock_ahead", 0.0)
    if state != "ok":
        note = way_back(state, ahead, ticks())
        yield Figure("Wall clock", f"{ahead:+,.0f} s", note, True)
    if of["clock"] is not None:
        yield Figure("Clock", time_element(of["clock"]), "the latest time among documents")


@router.post("/look")
def look(
    back: Back = "/",
    theme: Annotated[str, Form(max_length=10)] = "",
    density: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """Keep the theme or the density of lists in a cookie for a year, and return to the page."""
    answer = RedirectResponse(on_site(back), HTTPStatus.SEE_OTHER)
    for cookie, value, known in ((THEME, theme, THEMES), (DENSITY, density, DENSITIES)):
        if value in known:
            answer.set_cookie(cookie, value, max_age=YEAR, samesite="strict", httponly=True)
    return answer


@router.get("/static/{name}")
def file(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Serve a static file."""
    found = query_words() if name == query_words_name else static(name)
    if found is None:
        raise not_found("file", name)
    tag = f'"{hashlib.blake2b(found, digest_size=8).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if is_unchanged(tag, 0, if_none_match, None):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(found, media_type=kind, headers=headers)
