"""`xscl feeds import` and `export`: lists of feeds as OPML or text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feeds.errors import FeedError
from xscl.cli.argument_files import file_bytes
from xscl.cli.options import Call, Place, option
from xscl.cli.output import UsageError, answer, clean, echo, echo_xml, warn
from xscl.cli.progress import Quiet, working
from xscl.cli.service import opened
from xscl.client import FeedOutcome
from xscl.plurals import counted
from xscl.polling.feed import FeedsError, check_name

if TYPE_CHECKING:
    from feeds.formats.opml import FeedOutline

TITLE = "Feeds followed by xscl"


def import_(
    call: Call,
    file: Annotated[
        Path, typer.Argument(help="OPML, or a text with one address a line; - is standard input.")
    ],
    tag: Annotated[list[str] | None, option("--tag", "A tag for all of them; repeatable.")] = None,
    quiet: Quiet = False,
) -> None:
    """Follow the feeds of a list; its folders become tags. A second time nothing changes.

    \b
    Example:
      xscl feeds import subscriptions.opml
    """
    with usage_errors():
        for name in tag or ():
            check_name(name)
    body, outlines = _read(file)
    with (
        opened("feeds import", call, missing="create") as service,
        working(f"importing {counted(len(outlines), 'feed')}"),
    ):
        lines = service.import_feeds(body, tags=tag or ())
    answer(lines, _report(lines), as_json=call.as_json)
    for warning in dict.fromkeys(chain.from_iterable(line.warnings for line in lines)):
        warn(warning)
    failed = sum(line.outcome == "refused" for line in lines)
    if failed:
        warn(f"{failed} of {counted(len(lines), 'outline')} could not be imported")
        raise typer.Exit(1)


def export(
    place: Place,
    file: Annotated[
        Path | None, typer.Argument(help="The file to write; standard output if left out.")
    ] = None,
    tag: Annotated[str | None, option("--tag", "Only the feeds with this tag.")] = None,
    secrets: Annotated[bool, option("--secrets", "Write addresses that look secret, too.")] = False,
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


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report FeedsError of an argument as a command called wrongly."""
    try:
        yield
    except FeedsError as error:
        raise UsageError(error.message, hint=error.hint) from error


def _read(file: Path) -> tuple[bytes, tuple[FeedOutline, ...]]:
    """Return a list as bytes, and its outlines."""
    from feeds.formats.opml import read_list
    from feeds.xml.xmlparse import MAX_BYTES

    body = file_bytes(file, MAX_BYTES + 1)
    try:
        return body, read_list(body)
    except FeedError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _report(lines: Sequence[FeedOutcome]) -> Iterator[str]:
    yield from map(_text, lines)
    outcomes = Counter(line.outcome for line in lines)
    said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    yield f"{counted(len(lines), 'outline')}: {said or 'nothing to do'}"


def _text(line: FeedOutcome) -> str:
    where = f" on {', '.join((line.stream, *line.tags))}" if line.stream else ""
    why = f": {line.reason}" if line.reason else ""
    return f"{line.outcome}: {line.url or line.title or 'an outline'}{where}{why}"
