"""`xscl feeds import` and `export`: lists of feeds, as other readers write and read them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from feeds.errors import FeedError
from feeds.opml import Outline, read_list, write_opml
from feeds.xmlparse import DEFAULT
from xscl.cli.options import DATA, Data, Json, home
from xscl.cli.output import Misuse, clean, complain, say, say_json
from xscl.engine import Engine
from xscl.feed import EVERY, FeedsError, check_name
from xscl.feedlist import Line, Taken, outlines_of, take_list
from xscl.followed import Feeds
from xscl.following import allow_late

TITLE = "Feeds followed by xscl"


def import_(
    file: Annotated[
        Path, typer.Argument(help="OPML, or a text with one address a line; - is standard input.")
    ],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag for all of them; repeatable.")
    ] = None,
    data: Data = DATA,
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
    outlines = _read(file)
    place = home(data)
    with (
        place.hold("feeds import"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        taken = take_list(feeds, outlines, tag or (), EVERY)
        fixed = allow_late(engine, taken.feeds)
    if fixed:
        complain(
            f"items may come too late for {', '.join(sorted(fixed)[:10])}, whose lateness is fixed "
            "by subscriptions: add feeds before subscribing to their streams"
        )
    if as_json:
        say_json([asdict(line) for line in taken.lines])
    else:
        _say_report(taken)


def export(
    file: Annotated[
        Path | None, typer.Argument(help="The file to write; standard output if left out.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only the feeds with this tag.")] = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Write addresses that look secret, too.")
    ] = False,
    data: Data = DATA,
) -> None:
    """Write the feeds as OPML 2.0. Passwords and headers are never written.

    \b
    Example:
      xscl feeds export subscriptions.opml
    """
    place = home(data)
    place.expect()
    with (
        place.hold("feeds export"),
        Engine(place.database) as engine,
        Feeds(engine, place.spool) as feeds,
    ):
        chosen = [feed for feed in feeds if tag is None or tag in feed.tags]
    outlines, left_out = outlines_of(chosen, secrets=secrets)
    written = write_opml(outlines, TITLE)
    if file is None:
        sys.stdout.write(clean(written.decode("utf-8")))
    else:
        try:
            file.write_bytes(written)
        except OSError as error:
            raise Misuse(f"{file} cannot be written: {error.strerror}") from None
        say(f"{len(outlines)} feeds written to {file}")
    for feed in left_out:
        complain(f"{feed.shown_url} is left out: its address looks secret (--secrets writes it)")


@contextmanager
def misused() -> Iterator[None]:
    """Turn what is wrong with an argument into a command that was called wrongly."""
    try:
        yield
    except FeedsError as error:
        raise Misuse(error.message, hint=error.hint) from error


def _read(file: Path) -> tuple[Outline, ...]:
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
        return read_list(body)
    except FeedError as error:
        raise Misuse(f"{file} cannot be read: {error}") from error


def _say_report(taken: Taken) -> None:
    for line in taken.lines:
        say(_text(line))
    counted = Counter(line.outcome for line in taken.lines)
    said = ", ".join(f"{number} {outcome}" for outcome, number in counted.items())
    say(f"{len(taken.lines)} outlines: {said or 'nothing to do'}")


def _text(line: Line) -> str:
    where = f" on {', '.join((line.stream, *line.tags))}" if line.stream else ""
    why = f": {line.reason}" if line.reason else ""
    return f"{line.outcome}: {line.url or line.title or 'an outline'}{where}{why}"
