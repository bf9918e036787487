"""`xscl feeds add`, `list`, `show`, `edit`, `remove`, `poll`; `import` and `export` are beside."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import typer

from feeds.spool import Spool
from xscl.cli import feedlist
from xscl.cli.feedlist import misused
from xscl.cli.options import DATA, AllowAddress, Data, Json, NotifyHistory, home
from xscl.cli.output import (
    Misuse,
    complain,
    instant,
    one_line,
    say,
    say_json,
    table,
)
from xscl.cli.telling import Heard, sink
from xscl.engine import Engine
from xscl.feed import (
    EVERY,
    SECOND,
    Feed,
    Headers,
    check_name,
    check_url,
    read_header,
    shown,
)
from xscl.followed import Count, Feeds, ticks
from xscl.following import Fetching, Polled, allow_late, follow, poll_now
from xscl.language.parser import parse_window
from xscl.pipeline import DirectConsumer
from xscl.retention import asked
from xscl.why.intervals import duration

app = typer.Typer(
    help="Follow feeds: RSS, Atom and JSON Feed.", no_args_is_help=True, rich_markup_mode=None
)

app.command("import")(feedlist.import_)
app.command()(feedlist.export)

_LEAST = 60  # seconds

Header: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME: VALUE|@FILE",
        help="A header for its requests, kept secret; @FILE holds one a line; repeatable.",
    ),
]
Every: TypeAlias = Annotated[
    str | None,
    typer.Option("--every", metavar="TIME", help="Time between polls, such as 30min."),
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="URL|STREAM", help="The feed.")]


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
    every: Every = None,
    header: Header = None,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Follow a feed: its items are on its stream, its tags and the stream 'feeds'.

    The address may be that of a web page that announces a feed. User name and
    password in it, and headers, are kept secret. Items may come as late as two
    polls take, one hour at least: joins wait so long for them.

    \b
    Example:
      xscl feeds add https://example.org/news.atom --stream news --tag daily
    """
    with misused():
        check_url(url)
        for name in (*((stream,) if stream is not None else ()), *(tag or ())):
            check_name(name)
    seconds = EVERY if every is None else _seconds(every)
    headers = _headers(header)
    place = home(data)
    with (
        place.hold("feeds add"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        feed, fixed = follow(
            engine, feeds, url, stream=stream, tags=tag or (), every=seconds, headers=headers
        )
    _say_fixed(fixed)
    if as_json:
        say_json(row(feed, {}))
    else:
        late = duration(feed.lateness)
        say(f"following {feed.shown_url} on {', '.join(feed.streams)}; items may come {late} late")


@app.command("list")
def list_(data: Data = DATA, as_json: Json = False) -> None:
    """List the feeds: state, items seen, how they were read, next poll, last error.

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
        known, counts = list(feeds), feeds.counts()
    if as_json:
        say_json([row(feed, counts) for feed in known])
        return
    rows = [
        (
            feed.stream,
            ", ".join(feed.tags),
            feed.state,
            counts.get(feed.key, Count()).items,
            feed.quality,
            "" if feed.gone else instant(feed.next_poll),
            feed.shown_url,
            feed.error or feed.note,
        )
        for feed in known
    ]
    for line in table(_HEADINGS, rows):
        say(line)


_HEADINGS = (
    "STREAM",
    "TAGS",
    "STATE",
    "ITEMS",
    "QUALITY",
    "NEXT POLL",
    "ADDRESS",
    "LAST ERROR",
)


@app.command()
def show(feed: Name, data: Data = DATA, as_json: Json = False) -> None:
    """Show all that is known of a feed.

    \b
    Example:
      xscl feeds show news
    """
    place = home(data)
    place.expect()
    with (
        place.hold("feeds show"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        found = row(feeds[feed], feeds.counts())
    if as_json:
        say_json(found)
        return
    for name, value in found.items():
        if name in _TIMES and value is not None:
            value = instant(value)
        elif isinstance(value, list):
            value = ", ".join(value)
        say(f"{name.replace('_', ' '):14} {'' if value is None else one_line(str(value))}".rstrip())


_TIMES = ("added", "polled", "next_poll", "failing_since")


@app.command()
def edit(
    feed: Name,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag to add; repeatable.")
    ] = None,
    untag: Annotated[
        list[str] | None, typer.Option("--untag", help="A tag to take away; repeatable.")
    ] = None,
    every: Every = None,
    header: Header = None,
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Forget headers, user name and password.")
    ] = False,
    revive: Annotated[
        bool, typer.Option("--revive", help="Ask again, now, for a feed that was gone.")
    ] = False,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Change a feed: its tags, the time between polls, its headers. Items stay as they are.

    \b
    Example:
      xscl feeds edit news --tag daily --every 30min
    """
    with misused():
        for name in tag or ():
            check_name(name)
    given = _headers(header)
    place = home(data)
    place.expect()
    with (
        place.hold("feeds edit"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        found = feeds[feed]
        kept = () if no_headers else _besides(found, given)
        tags = dict.fromkeys((*found.tags, *(tag or ())))
        changed = replace(
            found,
            tags=tuple(name for name in tags if name not in (untag or ())),
            every=found.every if every is None else _seconds(every),
            headers=(*kept, *given),
            given_for=found.url if given else found.given_for,
            gone=found.gone and not revive,
            next_poll=ticks() if revive else found.next_poll,
        )
        feeds.edit(changed)
        fixed = allow_late(engine, [changed])
        counts = feeds.counts()
    _say_fixed(fixed)
    if as_json:
        say_json(row(changed, counts))
    else:
        say(f"{changed.shown_url} is on {', '.join(changed.streams)}, every {changed.every} s")


def _besides(feed: Feed, given: Headers) -> Headers:
    """Return the headers that are not given anew; all go if they belong to another server."""
    if given and urlsplit(feed.given_for)[:2] != urlsplit(feed.url)[:2]:
        return ()
    names = {name.lower() for name, _ in given}
    return tuple((name, value) for name, value in feed.headers if name.lower() not in names)


@app.command()
def remove(
    feed: Name,
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
    heard = Heard(as_json, notify_history)
    with (
        place.hold("feeds poll"),
        Engine(place.database) as engine,
        Spool(place.spool) as spool,
        Feeds(engine, place.spool) as feeds,
    ):
        engine.retain(asked(engine.retention))
        chosen = _chosen(feeds, feed or (), everything)
        polled = poll_now(feeds, spool, chosen, Fetching(tuple(allow_address or ())))
        with sink(engine, heard) as telling:
            DirectConsumer(spool, telling).run_once()
            if as_json:
                _say_all(polled, feeds.counts(), heard)
                sys.stdout.flush()
        if not as_json:
            _say_polled(polled, heard.shown)
            _say_silent(heard.silent)
    if polled and all(each.feed.error is not None for each in polled):
        raise typer.Exit(1)


def _chosen(feeds: Feeds, names: Sequence[str], everything: bool) -> list[Feed]:
    if names:
        return [feeds[name] for name in names]
    return [feed for feed in feeds if not feed.gone] if everything else feeds.due(ticks())


def _say_all(polled: Sequence[Polled], counts: Mapping[str, Count], heard: Heard) -> None:
    say_json(
        {
            "feeds": [
                row(each.feed, counts) | {"new": each.new, "asked": each.asked} for each in polled
            ],
            "matches": heard.rows,
            "matches_among_history": heard.silent,
        }
    )


def _say_polled(polled: Sequence[Polled], matches: int) -> None:
    for each in polled:
        if not each.asked:
            until = instant(each.held_until)
            complain(f"{each.feed.shown_url}: not asked, its server wants to be left until {until}")
        elif each.feed.error is not None:
            complain(f"{each.feed.shown_url}: {each.feed.error}")
        else:
            say(f"{each.feed.shown_url}: {each.new} new or changed items")
    if not polled:
        say("no feed is due")
    say(f"{len(polled)} feeds polled, {matches} matches")


def _say_silent(silent: Mapping[str, int]) -> None:
    """Say which matches were not printed, and how to see them."""
    if silent:
        each = ", ".join(f"{name} {number}" for name, number in sorted(silent.items())[:5])
        more = f" and {len(silent) - 5} other subscriptions" if len(silent) > 5 else ""
        say(f"{sum(silent.values())} more among items that the feeds held already ({each}{more})")
        complain("'xscl matches NAME' lists these; --notify-history prints them as they are found")


def _seconds(text: str) -> int:
    ticks = parse_window(text)
    if ticks is None or ticks < _LEAST * 1_000_000:
        raise Misuse(f"feeds are not polled more often than every {_LEAST} s")
    return ticks // 1_000_000


def _say_fixed(streams: Sequence[str]) -> None:
    for name in streams:
        complain(
            f"items of this feed may come too late for the stream {name!r}, whose lateness is "
            "fixed by its subscriptions: add feeds before subscribing to their streams"
        )


def _headers(written: Sequence[str] | None) -> Headers:
    """Return the headers that were asked for; `@file` stands for those in a file."""
    lines: list[str] = []
    for text in written or ():
        lines += _lines_of(Path(text[1:])) if text[:1] == "@" else [text]
    with misused():
        return tuple(read_header(line) for line in lines if line.strip())


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Misuse(f"the headers in {path} cannot be read: {reason}") from None


def row(feed: Feed, counts: Mapping[str, Count]) -> dict[str, Any]:
    """Return a feed as a value for JSON; nothing in it is secret."""
    count = counts.get(feed.key, Count())
    return {
        "url": feed.shown_url,
        "key": feed.key,
        "stream": feed.stream,
        "tags": list(feed.tags),
        "title": feed.title,
        "site_url": feed.site_url,
        "format": feed.format,
        "quality": feed.quality,
        "every": feed.every,
        "lateness": feed.lateness // SECOND,
        "ttl": feed.ttl,
        "headers": [name for name, _ in feed.headers],
        "state": feed.state,
        "items": count.items,
        "versions": count.versions,
        "skipped": count.skipped,
        "added": feed.added,
        "polled": feed.polled,
        "next_poll": None if feed.gone else feed.next_poll,
        "polls": feed.polls,
        "failures": feed.failures,
        "failing_since": feed.failing_since,
        "code": feed.code,
        "error": feed.error,
        "note": feed.note,
        "moved_to": None if feed.moved_to is None else shown(feed.moved_to),
    }
