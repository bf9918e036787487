"""`xscl feeds add`, `list`, `show`, `edit`, `remove`, `poll`; `import` and `export` are beside."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import typer

from feeds.fetch import CONTACT
from feeds.spool import Spool
from xscl.cli import feedlist
from xscl.cli.feedlist import misused
from xscl.cli.feedpolling import Outcome, first_polled, poll_remotely
from xscl.cli.feedrows import (
    Row,
    all_told,
    described,
    find,
    first_poll,
    followed,
    listed,
    row,
    streams,
    told,
)
from xscl.cli.naming import feeds_like
from xscl.cli.options import (
    DATA,
    AllowAddress,
    Contact,
    Data,
    Json,
    NotifyHistory,
    Token,
    Url,
    home,
)
from xscl.cli.output import Misuse, complain, say, say_json
from xscl.cli.remote import Remote, place, reached
from xscl.cli.telling import Heard, sink
from xscl.engine import Engine
from xscl.feed import (
    EVERY,
    Feed,
    Headers,
    check_name,
    check_url,
    read_header,
)
from xscl.followed import Feeds, ticks
from xscl.following import Fetching, Polled, allow_late, follow, late_items, poll_now
from xscl.home import Home
from xscl.language.parser import parse_window
from xscl.pipeline import DirectConsumer
from xscl.retention import asked
from xscl.time_format import written

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
Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="URL|STREAM", help="The feed.", autocompletion=feeds_like)
]


@app.command()
def add(
    address: Annotated[str, typer.Argument(metavar="URL", help="The address of the feed.")],
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
    url: Url = None,
    token: Token = None,
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
        check_url(address)
        for name in (*((stream,) if stream is not None else ()), *(tag or ())):
            check_name(name)
    seconds = EVERY if every is None else _seconds(every)
    headers = _headers(header)
    service = reached(data, url, token)
    if service is not None:
        wanted = {
            "url": address,
            "stream": stream,
            "tags": tag or [],
            "every": f"{seconds} s",
            "headers": _written(headers),
        }
        with service:
            answer = service.ask("POST", "/v1/feeds", json=wanted).json()
            added, warnings = first_polled(service, told(answer)), answer["warnings"]
    else:
        at = home(data)
        with (
            at.hold("feeds add"),
            Engine(at.database) as engine,
            Feeds(engine, at.spool) as feeds,
        ):
            feed, fixed = follow(
                engine,
                feeds,
                address,
                stream=stream,
                tags=tag or (),
                every=seconds,
                headers=headers,
            )
        added, warnings = row(feed, {}), [late_items(name) for name in fixed]
    for warning in warnings:
        complain(warning)
    if as_json:
        say_json(added)
    else:
        say(followed(added))
        complain(first_poll(added, is_served=service is not None))


@app.command("list")
def list_(data: Data = DATA, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the feeds: state, items seen, how they were read, next poll, last error.

    \b
    Example:
      xscl feeds list
    """
    found = _rows("feeds list", data, url, token)
    if as_json:
        say_json(found)
        return
    for line in listed(found):
        say(line)


@app.command()
def show(
    feed: Name, data: Data = DATA, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Show all that is known of a feed.

    \b
    Example:
      xscl feeds show news
    """
    found = find(_rows("feeds show", data, url, token), feed)
    if as_json:
        say_json(found)
        return
    for line in described(found):
        say(line)


def _rows(command: str, data: Path, url: str | None, token: str | None) -> list[Row]:
    """Return all feeds as values for JSON, in the order in which they were added."""
    service = reached(data, url, token)
    if service is not None:
        with service:
            return all_told(service)
    at = home(data)
    at.expect()
    with at.hold(command), Engine(at.database) as engine, Feeds(engine, at.spool) as feeds:
        counts = feeds.counts()
        return [row(each, counts) for each in feeds]


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
    url: Url = None,
    token: Token = None,
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
    seconds = None if every is None else _seconds(every)
    service = reached(data, url, token)
    if service is not None:
        change = {
            "every": None if seconds is None else f"{seconds} s",
            "headers": _written(given) if given or no_headers else None,
            "revive": revive,
        }
        with service:
            answer = _change(service, feed, tag or (), untag or (), change)
        _say_edited(told(answer), answer["warnings"], as_json)
        return
    at = home(data)
    at.expect()
    with (
        at.hold("feeds edit"),
        Engine(at.database) as engine,
        Feeds(engine, at.spool) as feeds,
    ):
        found = feeds[feed]
        kept = () if no_headers else _besides(found, given)
        tags = dict.fromkeys((*found.tags, *(tag or ())))
        changed = replace(
            found,
            tags=tuple(name for name in tags if name not in (untag or ())),
            every=found.every if seconds is None else seconds,
            headers=(*kept, *given),
            given_for=found.url if given else found.given_for,
            gone=found.gone and not revive,
            next_poll=ticks() if revive else found.next_poll,
        )
        feeds.edit(changed)
        fixed = allow_late(engine, [changed])
        counts = feeds.counts()
    _say_edited(row(changed, counts), [late_items(name) for name in fixed], as_json)


def _change(
    service: Remote,
    name: str,
    tags: Sequence[str],
    untag: Sequence[str],
    change: dict[str, Any],
) -> dict[str, Any]:
    """Change a feed of a service, and return what it answers."""
    found = find(all_told(service), name)
    given = {one.partition(":")[0].lower() for one in change["headers"] or ()}
    others = [one for one in found["headers"] if one.lower() not in given]
    if change["headers"] and others:
        raise Misuse(
            f"the feed has other headers, too, which a service replaces: {', '.join(others)}",
            hint="give all of them again, or forget them first with --no-headers",
        )
    if tags or untag:
        kept = dict.fromkeys((*found["tags"], *tags))
        change["tags"] = [one for one in kept if one not in untag]
    answer: dict[str, Any] = service.ask("PATCH", place("feeds", found["key"]), json=change).json()
    return answer


def _say_edited(found: Row, warnings: Sequence[str], as_json: bool) -> None:
    for warning in warnings:
        complain(warning)
    if as_json:
        say_json(found)
    else:
        say(f"{found['url']} is on {', '.join(streams(found))}, every {found['every']} s")


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
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Stop following a feed; its documents and their matches stay.

    \b
    Example:
      xscl feeds remove https://example.org/news.atom
    """
    service = reached(data, url, token)
    if service is not None:
        with service:
            known = find(all_told(service), feed)
            service.ask("DELETE", place("feeds", known["key"]))
        address = known["url"]
    else:
        at = home(data)
        at.expect()
        with (
            at.hold("feeds remove"),
            Engine(at.database) as engine,
            Feeds(engine, at.spool) as feeds,
        ):
            found = feeds[feed]
            feeds.remove(found)
        address = found.shown_url
    if as_json:
        say_json({"removed": address})
    else:
        say(f"no longer following {address}")


@app.command()
def poll(
    feed: Annotated[
        list[str] | None, typer.Argument(metavar="[URL|STREAM]...", help="These feeds, due or not.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All feeds, due or not.")] = False,
    notify_history: NotifyHistory = False,
    allow_address: AllowAddress = None,
    contact: Contact = CONTACT,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Poll the feeds that are due, once, take in what is new, and print the matches.

    \b
    Example:
      xscl feeds poll --all
    """
    heard = Heard(as_json, notify_history)
    service = reached(data, url, token)
    if service is not None:
        if allow_address:
            raise Misuse("--allow-address is for the service to be told: 'xscl serve' takes it")
        with service:
            outcomes = poll_remotely(service, feed or (), everything, heard)
        _say_outcomes(outcomes, heard, as_json)
    else:
        at = home(data)
        at.expect()
        fetching = Fetching(tuple(allow_address or ()), contact=contact)
        outcomes = _poll(at, feed or (), everything, heard, fetching)
    if outcomes and all(each.row["error"] is not None for each in outcomes):
        raise typer.Exit(1)


def _poll(
    at: Home, names: Sequence[str], everything: bool, heard: Heard, fetching: Fetching
) -> list[Outcome]:
    """Poll feeds of a data directory that nobody else uses, and tell what came."""
    with (
        at.hold("feeds poll"),
        Engine(at.database) as engine,
        Spool(at.spool) as spool,
        Feeds(engine, at.spool) as feeds,
    ):
        engine.retain(asked(engine.retention))
        chosen = _chosen(feeds, names, everything)
        polled = poll_now(feeds, spool, chosen, fetching)
        with sink(engine, heard) as telling:
            DirectConsumer(spool, telling).run_once()
            counts = feeds.counts()
            outcomes = [
                Outcome(row(each.feed, counts), each.new, _held(each), each.asked)
                for each in polled
            ]
            if heard.as_json:  # before the matches count as told
                _say_outcomes(outcomes, heard, True)
                sys.stdout.flush()
        if not heard.as_json:
            _say_outcomes(outcomes, heard, False)
    return outcomes


def _held(polled: Polled) -> str | None:
    return None if polled.held_until is None else written(polled.held_until)


def _chosen(feeds: Feeds, names: Sequence[str], everything: bool) -> list[Feed]:
    if names:
        return [feeds[name] for name in names]
    return [feed for feed in feeds if not feed.gone] if everything else feeds.due(ticks())


def _say_outcomes(outcomes: Sequence[Outcome], heard: Heard, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "feeds": [each.row | {"new": each.new, "asked": each.asked} for each in outcomes],
                "matches": heard.rows,
                "matches_among_history": heard.silent,
            }
        )
        return
    for each in outcomes:
        address = each.row["url"]
        if not each.asked:
            until = each.held_until
            complain(f"{address}: not asked, its server wants to be left until {until}")
        elif each.row["error"] is not None:
            complain(f"{address}: {each.row['error']}")
        else:
            say(f"{address}: {each.new} new or changed items")
    if not outcomes:
        say("no feed is due")
    say(f"{len(outcomes)} feeds polled, {heard.shown} matches")
    _say_silent(heard.silent)


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


def _written(headers: Headers) -> list[str]:
    return [f"{name}: {value}" for name, value in headers]


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
