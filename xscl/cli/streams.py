"""`xscl stream list`, `set`: the lateness of streams, and those on which the wall clock counts."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli.feed_lists import usage_errors
from xscl.cli.feed_rows import Row
from xscl.cli.options import Call, command_group, option
from xscl.cli.output import UsageError, answer, list_rows, warn
from xscl.cli.service import opened
from xscl.polling.feed import check_name
from xscl.time_format import SECOND, duration

app = command_group("Streams: their lateness, and whether time passes on them by the wall clock.")


@app.command("list")
def list_(call: Call) -> None:
    """List the streams: lateness, whether they are live, number of documents.

    \b
    Example:
      xscl stream list
    """
    with opened("stream list", call) as service:
        found = service.listed_streams()
    cells = ((one["name"], _lateness(one), _live(one), one["documents"]) for one in found)
    list_rows(
        "streams", found, ("STREAM", "LATENESS", "LIVE", "DOCUMENTS"), cells, as_json=call.as_json
    )


@app.command("set")
def set_(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the stream.")],
    lateness: Annotated[
        str | None,
        option("--lateness", "How far behind the latest document one may come: 1h.", "DURATION"),
    ] = None,
    live: Annotated[
        bool | None,
        option("--live/--not-live", "Whether the wall clock advances its time, too."),
    ] = None,
) -> None:
    """Set the lateness of a stream, or whether it is live; what is left out stays.

    On a live stream of a running service the wall clock, too, ends windows, so
    an absence is reported without a later document. Old records are replayed on
    a stream that is not live. Lateness is fixed once a subscription reads it.

    \b
    Example:
      xscl stream set orders --live
    """
    from xscl.cli.query_options import refuse_bare_duration
    from xscl.language.parser import parse_window

    if lateness is None and live is None:
        raise UsageError("there is nothing to set", hint="--lateness, --live or --not-live")
    with usage_errors():
        check_name(name)
    refuse_bare_duration(lateness, "--lateness")
    ticks = None if lateness is None else parse_window(lateness)
    with opened("stream set", call, missing="create") as service:
        made = service.set_stream(name, ticks, live)
    if live is not None and made["live"] != live:
        warn(f"{name!r} is what a subscription publishes: it is live if all that it reads is")
    text = f"{name}: lateness {_lateness(made)}, {'live' if made['live'] else 'not live'}"
    answer(made, [text], as_json=call.as_json)


def _lateness(one: Row) -> str:
    return duration(round(one["lateness"] * SECOND))


def _live(one: Row) -> str:
    return "yes" if one["live"] else "no"
