"""`xscl matches` and `stories`: what a subscription has found; `xscl stars`: starred matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from xscl.cli.connection import SubscriptionName, opened
from xscl.cli.match_text import WIDTH, match_text
from xscl.cli.options import Call, Verbose, argument, option
from xscl.cli.output import echo, echo_json, echo_lines, list_rows, one_line, warn
from xscl.client import Match
from xscl.errors import XsclError
from xscl.plurals import counted
from xscl.time_format import to_second


def matches(
    call: Call,
    name: SubscriptionName,
    after: str | None = option("Only those after this match.", "ID"),
    verbose: Verbose = False,
) -> None:
    """List the matches of a subscription that are kept, in the order in which they were found.

    Those among the items that feeds held when they were first polled are
    there, too, and those of earlier versions of its query; they stay when it is
    removed. -v shows ids and bound variables. With --json there is one match
    a line.

    \b
    Example:
      xscl matches echo --json
    """
    with opened("matches", call) as service:
        service.expect_known(name)
        found = service.matches(name)
        _skip_past(found, after)
        match = None
        for match in found:
            if call.as_json:
                echo_json(match)
            else:
                echo_lines(match_text(match, verbose=verbose))
    if match is None and not call.as_json:
        warn("no matches")


def stories(
    call: Call,
    name: SubscriptionName,
    merged: bool = option("Also those that others took over."),
) -> None:
    """List the stories of a subscription that has them, the one that grew last first.

    A story is a set of matches that share documents: one headline in eight feeds
    is one story. With --json there is one story a line.

    \b
    Example:
      xscl stories echo
    """
    with opened("stories", call) as service:
        service.expect_known(name)
        found = list(service.stories(name, merged=merged))
    for story in found:
        if call.as_json:
            echo_json(story)
            continue
        when = "" if story.timestamp is None else f"  {to_second(story.timestamp)}"
        echo(f"{story.id}{when}  {counted(story.documents, 'document')}")
        if story.merged_into is not None:
            echo(f"  in {story.merged_into}")
        echo_lines([f"  {story.absence}"] if story.absence else [])
        for source in story.sources:
            title = one_line(source.title or source.document, WIDTH)
            echo(
                f"  {title} | {to_second(source.timestamp)}"
                + (f" | {source.source}" * bool(source.source))
            )
    if not found and not call.as_json:
        warn("no stories: 'xscl edit NAME --stories' groups matches that share documents")


def stars(call: Call) -> None:
    """List the starred matches as they were, the last starred first.

    \b
    Example:
      xscl stars --json
    """
    with opened("stars", call) as service:
        found = list(service.stars())
    if call.as_json:
        for star in found:
            echo_json(star)
        return
    for star in found:
        echo(f"{star.subscription}  {to_second(star.timestamp)}")
        for document in star.documents:
            echo(f"  {one_line(document.title, WIDTH)} | {to_second(document.timestamp)}")
            echo_lines(["    " + one_line(document.url)] if document.url else [])
        echo_lines(f"    {name} = {one_line(text)}" for name, text in star.values.items())
    if not found:
        warn("no match is starred: the page and PUT /v1/stars/{match} star one")


def _skip_past(found: Iterator[Match], after: str | None) -> None:
    """Consume the matches up to the one with the id `after`; raise XsclError without it."""
    if after is not None and not any(match.id == after for match in found):
        raise XsclError(
            f"the subscription has no match {after!r}, or not any more",
            hint="without --after all that are kept are listed",
        )


def read(
    call: Call,
    item: list[str] | None = argument("Names of documents, ids of matches.", "[ITEM]..."),
    unread: bool = option("Mark them as unread."),
    order: Literal["arrival", "date"] | None = option(
        "The order of items on the page: arrival or date.", "ORDER"
    ),
) -> None:
    """Mark items and matches as read, for every browser; without any, list what is read.

    \b
    Example:
      xscl read news/example.org-1f0c#1
    """
    with opened("read", call) as service:
        if order is not None:
            service.order_items(order)
        if item:
            service.mark_read(item, read=not unread)
        marks = [] if item or order else list(service.read_marks())
    if not (item or order):
        list_rows("marks", marks, ("item", "read"), as_json=call.as_json)
