"""`xscl feeds`: follow feeds, change and poll them; import and export lists of feeds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from feeds.errors import FeedError
from feeds.formats.entries import without_user
from feeds.http.connection import CONTACT
from xscl.cli.connection import feeds_like, opened
from xscl.cli.match_text import MatchReport
from xscl.cli.options import (
    AllowAddress,
    Call,
    Contact,
    NotifyHistory,
    Place,
    Verbose,
    argument,
    command_group,
    file_bytes,
    file_text,
    not_standard,
    option,
)
from xscl.cli.output import (
    TableColumn,
    UsageError,
    answer,
    clean,
    echo,
    echo_json,
    echo_xml,
    list_rows,
    one_line,
    usage_errors,
    warn,
)
from xscl.cli.progress import Quiet, working
from xscl.cli.service import FeedPolled
from xscl.client import Feed, FeedOutcome
from xscl.documents.document_validation import check_stream
from xscl.errors import near_miss
from xscl.language.names import EVERYTHING
from xscl.plurals import counted
from xscl.polling.feed import (
    EVERY,
    LEAST_EVERY,
    SECOND,
    FeedsError,
    check_url,
    feed_key,
    read_header,
    shown,
)
from xscl.time_format import duration, to_second

if TYPE_CHECKING:
    from feeds.formats.opml import FeedOutline

app = command_group("Follow feeds: RSS, Atom and JSON Feed.")

Header: TypeAlias = Annotated[
    list[str] | None,
    option(
        "A header for its requests, kept secret; @FILE holds one a line; repeatable.",
        "NAME: VALUE|@FILE",
    ),
]
PollInterval: TypeAlias = Annotated[
    str | None, option("Time between polls, such as 30min.", "TIME")
]
Name: TypeAlias = Annotated[str, argument("The feed.", "URL|STREAM", autocompletion=feeds_like)]


TITLE = "Feeds followed by xscl"


@app.command("import")
def import_(
    call: Call,
    file: Path = argument("OPML, or a text with one address a line; - is standard input."),
    tag: list[str] | None = option("A tag for all of them; repeatable."),
    quiet: Quiet = False,
) -> None:
    """Follow the feeds of a list; its folders become tags. A second time nothing changes.

    \b
    Example:
      xscl feeds import subscriptions.opml
    """
    with usage_errors():
        for name in tag or ():
            check_stream(name)
    body, outlines = _read_list(file)
    with (
        opened("feeds import", call, missing="create") as service,
        working(f"importing {counted(len(outlines), 'feed')}"),
    ):
        lines = service.import_feeds(body, tags=tag or ())
    answer(lines, _outcomes(lines), as_json=call.as_json)
    for warning in dict.fromkeys(chain.from_iterable(line.warnings for line in lines)):
        warn(warning)
    failed = sum(line.outcome == "refused" for line in lines)
    if failed:
        warn(f"{failed} of {counted(len(lines), 'outline')} could not be imported")
        raise typer.Exit(1)


@app.command()
def export(
    place: Place,
    file: Path | None = argument(
        "The file to write; standard output if left out.", callback=not_standard
    ),
    tag: str | None = option("Only the feeds with this tag."),
    secrets: bool = option("Write addresses that look secret, too."),
) -> None:
    """Write the feeds as OPML 2.0. Passwords and headers are never written.

    'xscl export' writes them, too, to a private file.

    \b
    Example:
      xscl feeds export subscriptions.opml
    """
    with opened("feeds export", place) as service:
        outlines, left_out = service.outlines(tag, secrets=secrets)
    from feeds.formats.opml import write_opml

    written = write_opml(outlines, TITLE)
    if file is None:
        echo_xml(clean(written.decode("utf-8")))
    else:
        try:
            file.write_bytes(written)
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from None
        echo(f"{counted(len(outlines), 'feed')} written to {file}")
    for one in left_out:
        warn(f"{one} is left out: its address looks secret (--secrets writes it)")


@app.command()
def add(
    call: Call,
    address: str = argument("The address of the feed.", "URL"),
    stream: str | None = option("Its stream; the host's name if left out."),
    tag: list[str] | None = option("A stream that it shares with others; repeatable."),
    every: PollInterval = None,
    header: Header = None,
    keep: bool = option("Follow it although its first poll fails."),
) -> None:
    """Follow a feed; its items go to its own stream, its tags and the stream 'feeds'.

    URL is the feed or a web page that links to one. A user name and password in
    the URL, and headers, are stored as secrets. The lateness of the streams is two
    poll intervals, at least 1 h: joins match items that are late by up to that.

    \b
    Example:
      xscl feeds add https://example.org/news.atom --stream news --tag daily
    """
    with usage_errors():
        check_url(address)
        for name in (*((stream,) if stream is not None else ()), *(tag or ())):
            check_stream(name)
    seconds = EVERY if every is None else _seconds(every)
    headers = _headers(header)
    with opened("feeds add", call, missing="create") as service:
        added = service.begin_following(
            address, stream=stream, tags=tag or (), every=seconds, headers=headers, keep=keep
        )
        is_served = service.is_served
    for warning in added.warnings:
        warn(warning)
    told = "" if call.as_json else first_poll(added, is_served=is_served)
    failed = added.error is not None
    if told and failed:
        warn(told)
    answer(row(added), [followed(added)], as_json=call.as_json)
    if told and not failed:
        warn(told)


@app.command("list")
def list_(call: Call) -> None:
    """List the feeds: state, number of items, parse quality, next poll, last error.

    \b
    Example:
      xscl feeds list
    """
    with opened("feeds list", call) as service:
        found = service.feeds_by_age()
    list_rows("feeds", found, COLUMNS, as_json=call.as_json, shown=row)


@app.command()
def show(call: Call, feed: Name) -> None:
    """Show the attributes of a feed; with --json also those without a value.

    \b
    Example:
      xscl feeds show news
    """
    with opened("feeds show", call) as service:
        found = find(service.feeds_by_age(), feed)
    answer(row(found), described(found), as_json=call.as_json)


@app.command()
def history(call: Call, feed: Name) -> None:
    """List the last 100 polls of a feed: outcome, time of the answer, new items, errors.

    \b
    Example:
      xscl feeds history news
    """
    with opened("feeds history", call) as service:
        polls = service.polls(find(service.feeds_by_age(), feed).key)
    seconds: TableColumn = ("seconds", lambda one: f"{one.seconds:.2f}")
    columns = (
        ("time", "polled"),
        "outcome",
        seconds,
        ("new", "items"),
        "note",
    )
    list_rows("polls", polls, columns, as_json=call.as_json)


@app.command()
def edit(
    call: Call,
    feed: Name,
    title: str | None = option("Your name for it; an empty one gives it its own again.", "TEXT"),
    tag: list[str] | None = option("A tag to add; repeatable."),
    untag: list[str] | None = option("A tag to take away; repeatable."),
    every: PollInterval = None,
    header: Header = None,
    no_headers: bool = option("Forget headers, user name and password."),
    revive: bool = option("Poll again, at once, a feed that was gone."),
) -> None:
    """Change the name, tags, poll interval or headers of a feed. Its items do not change.

    \b
    Example:
      xscl feeds edit news --title "Town news" --tag daily --every 30min
    """
    with usage_errors():
        for name in tag or ():
            check_stream(name)
    given = _headers(header)
    seconds = None if every is None else _seconds(every)
    with opened("feeds edit", call) as service:
        found = find(service.feeds_by_age(), feed)
        _refuse_lost_headers(found, given, no_headers=no_headers)
        kept = dict.fromkeys((*found.tags, *(tag or ())))
        changed = service.change_feed(
            found.key,
            title=title,
            tags=[name for name in kept if name not in (untag or ())] if tag or untag else None,
            every=None if seconds is None else f"{seconds} s",
            headers=given if given or no_headers else None,
            revive=revive,
        )
    for warning in changed.warnings:
        warn(warning)
    line = f"{changed.url} is on {', '.join(streams(changed))}, every {changed.every} s"
    answer(row(changed), [line], as_json=call.as_json)


def _refuse_lost_headers(feed: Feed, given: Sequence[str], *, no_headers: bool) -> None:
    """Raise UsageError if the new headers would drop stored ones, whose values are secret."""
    names = {line.partition(":")[0].lower() for line in given}
    lost = [name for name in feed.headers if name.lower() not in names]
    if given and lost and not no_headers:
        raise UsageError(
            f"the feed has other headers, too, which would be replaced: {', '.join(lost)}",
            hint="give all of them again, or replace them with --no-headers --header ...",
        )


@app.command()
def remove(call: Call, feed: Name) -> None:
    """Stop following a feed. Its documents and their matches are kept.

    \b
    Example:
      xscl feeds remove https://example.org/news.atom
    """
    with opened("feeds remove", call) as service:
        found = find(service.feeds_by_age(), feed)
        service.unfollow(found.key)
    answer({"removed": found.url}, [f"no longer following {found.url}"], as_json=call.as_json)


@dataclass(frozen=True, slots=True)
class Polling:
    """The options of commands that poll feeds and print the matches."""

    allow_address: AllowAddress = None
    contact: Contact = CONTACT
    verbose: Verbose = False
    quiet: Quiet = False


@app.command()
def poll(
    polling: Polling,
    call: Call,
    feed: list[str] | None = argument("These feeds, due or not.", "[URL|STREAM]..."),
    everything: bool = option("All feeds, due or not.", flags="--all"),
    notify_history: NotifyHistory = False,
) -> None:
    """Poll each feed that is due, ingest new items, and print the matches.

    If a feed fails, the others are polled and the exit code is 1.

    \b
    Example:
      xscl feeds poll --all
    """
    from xscl.polling.feed_poller import PollSettings

    report = MatchReport(call.as_json, notify_history, polling.verbose)
    fetching = PollSettings(tuple(polling.allow_address or ()), contact=polling.contact)
    with opened("feeds poll", call) as service:
        followed = service.feeds_by_age()
        chosen = _chosen(followed, feed or (), everything)
        if followed and not (chosen or everything):
            warn("'xscl feeds poll --all' polls feeds that are not due, too")
        with service.poll_feeds(chosen, fetching, report) as outcomes:
            _echo_outcomes(outcomes, report)
            sys.stdout.flush()  # before the matches are acknowledged
    failed = sum(each.feed.error is not None for each in outcomes)
    if failed:
        if len(outcomes) > 1:
            warn(f"{failed} of {counted(len(outcomes), 'feed')} failed")
        raise typer.Exit(1)


@app.command()
def refresh(
    polling: Polling,
    call: Call,
    feed: list[str] | None = argument(
        "These feeds only.", "[URL|STREAM]...", autocompletion=feeds_like
    ),
) -> None:
    """Poll all feeds or some now, due or not, and print the matches of their new items.

    If a feed fails, the others are polled and the exit code is 1.

    \b
    Example:
      xscl feeds refresh news
    """
    poll(polling, call, feed, everything=not feed, notify_history=False)


def _chosen(feeds: Sequence[Feed], names: Sequence[str], everything: bool) -> list[Feed]:
    """Return the feeds to poll: the named ones, all live ones, or those due, by due time.

    Named feeds are polled even if they are due later or have ended.
    """
    if names:
        return [find(feeds, name) for name in names]
    alive = {feed.key: feed for feed in feeds if feed.next_poll is not None}
    if everything:
        return list(alive.values())
    now = datetime.now(UTC)
    times = ((one.next_poll, key) for key, one in alive.items() if one.next_poll)
    return [alive[key] for when, key in sorted(times) if when <= now]


def _echo_outcomes(outcomes: Sequence[FeedPolled], report: MatchReport) -> None:
    if report.as_json:
        echo_json(
            {
                "feeds": [
                    row(each.feed) | {"new": each.new, "asked": each.asked} for each in outcomes
                ],
                "matches": report.rows,
                "matches_among_history": report.silent,
            }
        )
        return
    for each in outcomes:
        address, error = each.feed.url, each.feed.error
        if not each.asked:
            until = to_second(each.held_until)
            warn(f"{address}: not asked, its server wants to be left until {until}")
        elif error is not None:
            warn(f"{address}: {error}")
        else:
            echo(f"{address}: {counted(each.new, 'new or changed item')}")
    if not outcomes:
        echo("no feed is due")
    echo(f"{counted(len(outcomes), 'feed')} polled, {counted(report.shown, 'match')}")
    _echo_silent(report.silent)


def _echo_silent(silent: Mapping[str, int]) -> None:
    """Print the number of suppressed matches, and the command that lists them."""
    if silent:
        each = ", ".join(f"{name} {number}" for name, number in sorted(silent.items())[:5])
        more = f" and {len(silent) - 5} other subscriptions" if len(silent) > 5 else ""
        echo(f"{sum(silent.values())} more among items that the feeds held already ({each}{more})")
        warn("'xscl matches NAME' lists these; --notify-history prints them as they are found")


def _seconds(text: str) -> int:
    from xscl.language.parser import parse_window

    ticks = parse_window(text)
    if ticks is None or ticks < LEAST_EVERY * 1_000_000:
        raise UsageError(f"feeds are not polled more often than every {LEAST_EVERY} s")
    return ticks // 1_000_000


def _headers(written: Sequence[str] | None) -> list[str]:
    """Return the headers; `@FILE` is a file with one header per line.

    Raises UsageError for a malformed header.
    """
    lines: list[str] = []
    for text in written or ():
        lines += (
            file_text(Path(text[1:]), "the headers in").splitlines() if text[:1] == "@" else [text]
        )
    with usage_errors():
        return [": ".join(read_header(line)) for line in lines if line.strip()]


WIDTH = 40
"""Characters of the title of a feed in a table."""
_TITLE: TableColumn = ("title", lambda one: one_line(one.title, WIDTH))
_ERROR: TableColumn = ("last error", lambda one: one.error or one.note)
_ADDRESS = ("address", "url")
COLUMNS = ("stream", _TITLE, "tags", "state", "items", "quality", "next_poll", _ADDRESS, _ERROR)


def find(feeds: Sequence[Feed], name: str) -> Feed:
    """Return the feed with a name: its address, key, stream or title; raises FeedsError.

    No other feed may have that stream or title.
    """
    try:
        address, keys = shown(without_user(name)), (name, feed_key(name))
    except ValueError:
        address, keys = name, (name, name)
    found = (
        [feed for feed in feeds if feed.key in keys]
        or [feed for feed in feeds if feed.url == address]
        or [feed for feed in feeds if feed.stream == name]
        or [feed for feed in feeds if feed.title == name]
    )
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
    names = [feed.stream for feed in feeds]
    longer = next((one for one in names if name in one), name)
    near = None if found else near_miss(longer, names, quoted=True)
    listed = "'xscl feeds list' shows addresses and streams"
    raise FeedsError(f"{what} {address!r}", hint=f"{near} {listed}" if near else listed)


def row(one: Feed) -> dict[str, Any]:
    """Return a feed as JSON values, without the warnings about a change."""
    return one.model_dump(mode="json", exclude={"warnings"})


def described(one: Feed) -> Iterator[str]:
    """Yield the fields of a feed that have a value, a line each, but its warnings."""
    for name, value in one:
        if isinstance(value, datetime):
            value = to_second(value)
        elif name in ("every", "lateness", "ttl") and value:
            value = duration(value * SECOND)
        elif isinstance(value, tuple):
            value = ", ".join(value)
        text = "" if value is None else one_line(str(value))
        if text and name != "warnings":
            yield f"{name.replace('_', ' '):14} {text}".rstrip()


def followed(one: Feed) -> str:
    """Return the message about a feed that was added."""
    late = duration(one.lateness * SECOND)
    return f"following {one.url} on {', '.join(streams(one))}; items may come {late} late"


def first_poll(one: Feed, *, is_served: bool) -> str:
    """Return the message about the first poll of a feed that was added."""
    if one.error is not None:
        return (
            f"the feed is followed, but its first poll failed: {one.error}; it is asked again"
            f" ('xscl feeds remove {one.stream}' stops that)"
        )
    if one.polls:
        return f"it has {counted(one.items, 'item')}: new subscriptions begin with their matches"
    if is_served:
        return f"it is being polled: 'xscl feeds show {one.stream}' says how that went"
    return "'xscl feeds poll' polls it, and 'xscl serve' polls whatever is due"


def streams(one: Feed) -> list[str]:
    """Return the streams of a feed."""
    return list(dict.fromkeys((one.stream, *one.tags, EVERYTHING)))


# -- Lists of feeds ------------------------------------------------------------------------


def _read_list(file: Path) -> tuple[bytes, tuple[FeedOutline, ...]]:
    """Return the bytes of a file, and the outlines of the list of feeds in it."""
    from feeds.formats.opml import read_list
    from feeds.xml.xmlparse import MAX_BYTES

    body = file_bytes(file, MAX_BYTES + 1)
    try:
        return body, read_list(body)
    except FeedError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _outcomes(lines: Sequence[FeedOutcome]) -> Iterator[str]:
    yield from map(_outcome, lines)
    outcomes = Counter(line.outcome for line in lines)
    said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    yield f"{counted(len(lines), 'outline')}: {said or 'nothing to do'}"


def _outcome(line: FeedOutcome) -> str:
    where = f" on {', '.join((line.stream, *line.tags))}" if line.stream else ""
    why = f": {line.reason}" if line.reason else ""
    return f"{line.outcome}: {line.url or line.title or 'an outline'}{where}{why}"
