"""`xscl feeds import` and `export`: lists of feeds, as other readers write and read them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from feeds.errors import FeedError
from feeds.opml import Outline, read_list, write_opml
from feeds.xmlparse import DEFAULT
from xscl.cli.feedrows import all_told
from xscl.cli.options import DATA, Data, Json, Token, Url, home
from xscl.cli.output import Misuse, clean, complain, say, say_json
from xscl.cli.remote import Remote, reached
from xscl.engine import Engine
from xscl.feed import EVERY, FeedsError, check_name
from xscl.feedlist import Line, outlines_of, take_list
from xscl.followed import Feeds
from xscl.following import allow_late
from xscl.home import Home

TITLE = "Feeds followed by xscl"


def import_(
    file: Annotated[
        Path, typer.Argument(help="OPML, or a text with one address a line; - is standard input.")
    ],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag for all of them; repeatable.")
    ] = None,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Follow the feeds of a list; its folders become tags. A second time nothing changes.

    \b
    Example:
      xscl feeds import subscriptions.opml
    """
    with misused():
        for name in tag or ():
            check_name(name)
    body, outlines = _read(file)
    service = reached(data, url, token)
    if service is not None:
        with service:
            parameters = {"tag": tag or []}
            answer = service.ask("POST", "/v1/feeds:import", params=parameters, content=body)
        lines: Sequence[Line] = [
            Line(**{**one, "tags": tuple(one["tags"])}) for one in answer.json()
        ]
    else:
        lines = _take(home(data), outlines, tag or ())
    if as_json:
        say_json([asdict(line) for line in lines])
    else:
        _say_report(lines)


def _told(one: dict[str, Any]) -> Line:
    return Line(**{**one, "tags": tuple(one["tags"])})


def _take(at: Home, outlines: Sequence[Outline], tags: Sequence[str]) -> Sequence[Line]:
    """Follow the feeds of a list, and return what became of each."""
    with (
        at.hold("feeds import"),
        Engine(at.database) as engine,
        Feeds(engine, at.spool) as feeds,
    ):
        taken = take_list(feeds, outlines, tags, EVERY)
        fixed = allow_late(engine, taken.feeds)
    if fixed:
        complain(
            f"items may come too late for {', '.join(sorted(fixed)[:10])}, whose lateness is fixed "
            "by subscriptions: add feeds before subscribing to their streams"
        )
    return taken.lines


def export(
    file: Annotated[
        Path | None, typer.Argument(help="The file to write; standard output if left out.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only the feeds with this tag.")] = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Write addresses that look secret, too.")
    ] = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
) -> None:
    """Write the feeds as OPML 2.0. Passwords and headers are never written.

    \b
    Example:
      xscl feeds export subscriptions.opml
    """
    service = reached(data, url, token)
    if service is not None:
        if secrets:
            raise Misuse("a service writes no secret addresses", hint="stop it first")
        with service:
            outlines, left_out = _exported(service, tag)
    else:
        at = home(data)
        at.expect()
        with (
            at.hold("feeds export"),
            Engine(at.database) as engine,
            Feeds(engine, at.spool) as feeds,
        ):
            chosen = [feed for feed in feeds if tag is None or tag in feed.tags]
        found, secret = outlines_of(chosen, secrets=secrets)
        outlines, left_out = list(found), [feed.shown_url for feed in secret]
    written = write_opml(outlines, TITLE)
    if file is None:
        sys.stdout.write(clean(written.decode("utf-8")))
    else:
        try:
            file.write_bytes(written)
        except OSError as error:
            raise Misuse(f"{file} cannot be written: {error.strerror}") from None
        say(f"{len(outlines)} feeds written to {file}")
    for one in left_out:
        complain(f"{one} is left out: its address looks secret (--secrets writes it)")


def _exported(service: Remote, tag: str | None) -> tuple[list[Outline], list[str]]:
    """Return the feeds that a service writes, and the shown addresses of those it leaves out."""
    answer = service.ask("GET", "/v1/feeds:export")
    found = [one for one in read_list(answer.content) if tag is None or tag in one.tags]
    written = {one.url for one in found}
    known = [one for one in all_told(service) if tag is None or tag in one["tags"]]
    return found, [one["url"] for one in known if one["url"] not in written]


@contextmanager
def misused() -> Iterator[None]:
    """Turn what is wrong with an argument into a command that was called wrongly."""
    try:
        yield
    except FeedsError as error:
        raise Misuse(error.message, hint=error.hint) from error


def _read(file: Path) -> tuple[bytes, tuple[Outline, ...]]:
    """Return a list as it is, and what it says."""
    limit = DEFAULT.bytes + 1
    if str(file) == "-":
        body = sys.stdin.buffer.read(limit)
    else:
        try:
            with file.open("rb") as stream:
                body = stream.read(limit)
        except OSError as error:
            raise Misuse(f"{file} cannot be read: {error.strerror}") from None
    try:
        return body, read_list(body)
    except FeedError as error:
        raise Misuse(f"{file} cannot be read: {error}") from error


def _say_report(lines: Sequence[Line]) -> None:
    for line in lines:
        say(_text(line))
    counted = Counter(line.outcome for line in lines)
    said = ", ".join(f"{number} {outcome}" for outcome, number in counted.items())
    say(f"{len(lines)} outlines: {said or 'nothing to do'}")


def _text(line: Line) -> str:
    where = f" on {', '.join((line.stream, *line.tags))}" if line.stream else ""
    why = f": {line.reason}" if line.reason else ""
    return f"{line.outcome}: {line.url or line.title or 'an outline'}{where}{why}"
