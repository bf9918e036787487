"""`xscl feeds add`, `list`, `remove`, `poll`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from feeds.spool import Spool
from xscl.cli.options import DATA, AllowAddress, Data, Json, NotifyHistory, home
from xscl.cli.output import (
    Misuse,
    complain,
    instant,
    match_row,
    match_text,
    say,
    say_json,
    table,
)
from xscl.engine import Engine
from xscl.feed import EVERY, Feed
from xscl.followed import Feeds, ticks
from xscl.following import Fetching, Polled, follow, poll_now
from xscl.language.parser import parse_window
from xscl.match import Match, Matches
from xscl.pipeline import DirectConsumer
from xscl.sink import EngineSink

app = typer.Typer(
    help="Follow feeds: RSS, Atom and JSON Feed.", no_args_is_help=True, rich_markup_mode=None
)

_LEAST = 60  # seconds


@app.command()
def add(
    url: Annotated[str, typer.Argument(help="The address of the feed.")],
    stream: Annotated[
        str | None, typer.Option("--stream", help="Its stream; the host's name if left out.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="A stream that it shares with others; repeatable."),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Time between polls, such as 30min."),
    ] = None,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Follow a feed: its items are on its stream, its tags and the stream 'feeds'.

    \b
    Example:
      xscl feeds add https://example.org/news.atom --stream news --tag daily
    """
    if not url.startswith(("http://", "https://")):
        raise Misuse(f"{url!r} is no address of a feed", hint="it begins with http:// or https://")
    seconds = EVERY if every is None else _seconds(every)
    place = home(data)
    with (
        place.hold("feeds add"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        feed, fixed = follow(engine, feeds, url, stream=stream, tags=tag or (), every=seconds)
    for name in fixed:
        complain(
            f"items of this feed may come too late for the stream {name!r}, whose lateness is "
            "fixed by its subscriptions: add feeds before subscribing to their streams"
        )
    if as_json:
        say_json(_row(feed))
    else:
        say(f"following {feed.shown_url} on {', '.join(feed.streams)}")


@app.command("list")
def list_(data: Data = DATA, as_json: Json = False) -> None:
    """List the feeds with their state, next poll and last error.

    \b
    Example:
      xscl feeds list
    """
    place = home(data)
    place.expect()
    with (
        place.hold("feeds list"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        known = list(feeds)
    if as_json:
        say_json([_row(feed) for feed in known])
        return
    rows = [
        (
            feed.stream,
            ", ".join(feed.tags),
            feed.state,
            "" if feed.gone else instant(feed.next_poll),
            feed.shown_url,
            feed.error,
        )
        for feed in known
    ]
    for line in table(("STREAM", "TAGS", "STATE", "NEXT POLL", "ADDRESS", "LAST ERROR"), rows):
        say(line)


@app.command()
def remove(
    feed: Annotated[str, typer.Argument(metavar="URL|STREAM", help="The feed.")],
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Stop following a feed; its documents and their matches stay.

    \b
    Example:
      xscl feeds remove https://example.org/news.atom
    """
    place = home(data)
    place.expect()
    with (
        place.hold("feeds remove"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        found = feeds[feed]
        feeds.remove(found)
    if as_json:
        say_json({"removed": found.shown_url})
    else:
        say(f"no longer following {found.shown_url}")


@app.command()
def poll(
    feed: Annotated[
        list[str] | None, typer.Argument(metavar="[URL|STREAM]...", help="These feeds, due or not.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All feeds, due or not.")] = False,
    notify_history: NotifyHistory = False,
    allow_address: AllowAddress = None,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Poll the feeds that are due, once, take in what is new, and print the matches.

    \b
    Example:
      xscl feeds poll --all
    """
    place = home(data)
    place.expect()
    found: list[Match] = []

    def listen(matches: Matches) -> None:
        found.extend(m for m in matches if notify_history or not m.history)

    with (
        place.hold("feeds poll"),
        Engine(place.database) as engine,
        Spool(place.spool) as spool,
        Feeds(engine, place.spool) as feeds,
    ):
        chosen = _chosen(feeds, feed or (), everything)
        polled = poll_now(feeds, spool, chosen, Fetching(tuple(allow_address or ())))
        sink = EngineSink(engine, listen)
        DirectConsumer(spool, sink, checkpoint=place.checkpoint).run_once()
        if as_json:
            say_json(
                {
                    "feeds": [_row(each.feed) | {"new": each.new} for each in polled],
                    "matches": [match_row(match) for match in found],
                }
            )
        else:
            _say_polled(polled, found)
    if polled and all(each.feed.error is not None for each in polled):
        raise typer.Exit(1)


def _chosen(feeds: Feeds, names: Sequence[str], everything: bool) -> list[Feed]:
    if names:
        return [feeds[name] for name in names]
    return [feed for feed in feeds if not feed.gone] if everything else feeds.due(ticks())


def _say_polled(polled: Sequence[Polled], found: Sequence[Match]) -> None:
    for match in found:
        for line in match_text(match):
            say(line)
    for each in polled:
        if each.feed.error is not None:
            complain(f"{each.feed.shown_url}: {each.feed.error}")
        else:
            say(f"{each.feed.shown_url}: {each.new} new or changed items")
    if not polled:
        say("no feed is due")
    say(f"{len(polled)} feeds polled, {len(found)} matches")


def _seconds(text: str) -> int:
    ticks = parse_window(text)
    if ticks is None or ticks < _LEAST * 1_000_000:
        raise Misuse(f"feeds are not polled more often than every {_LEAST} s")
    return ticks // 1_000_000


def _row(feed: Feed) -> dict[str, Any]:
    return {
        "url": feed.shown_url,
        "key": feed.key,
        "stream": feed.stream,
        "tags": list(feed.tags),
        "title": feed.title,
        "every": feed.every,
        "state": feed.state,
        "polled": feed.polled,
        "next_poll": None if feed.gone else feed.next_poll,
        "polls": feed.polls,
        "failures": feed.failures,
        "error": feed.error,
    }
