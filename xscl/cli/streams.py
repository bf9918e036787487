"""`xscl stream list`, `set`: the lateness of streams, and those on which the wall clock counts."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from xscl.cli.connection import opened
from xscl.cli.options import Call, argument, command_group, option
from xscl.cli.output import TableColumn, UsageError, answer, list_rows, usage_errors, warn
from xscl.cli.query_options import refuse_bare_duration
from xscl.cli.service import OpenedService
from xscl.client import Refused, Stream
from xscl.documents.document_validation import check_stream
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
        found = list(service.streams())
    live: TableColumn = ("live", lambda one: "yes" if one.live else "no")
    columns = (
        ("stream", "name"),
        ("lateness", _lateness),
        live,
        "documents",
    )
    list_rows("streams", found, columns, as_json=call.as_json, shown=_shown)


@app.command("set")
def set_(
    call: Call,
    name: str = argument("The name of the stream.", "NAME"),
    lateness: str | None = option(
        "How far behind the latest document one may come: 1h.", "DURATION"
    ),
    live: bool | None = option(
        "Whether the wall clock advances its time, too.", flags="--live/--not-live"
    ),
) -> None:
    """Set the lateness of a stream, or whether it is live; what is left out stays.

    On a live stream of a running service the wall clock, too, ends windows, so
    an absence is reported without a later document. Old records are replayed on
    a stream that is not live. Lateness is fixed once a subscription reads it.

    \b
    Example:
      xscl stream set orders --live
    """
    if lateness is None and live is None:
        raise UsageError("there is nothing to set", hint="--lateness, --live or --not-live")
    with usage_errors():
        check_stream(name)
    refuse_bare_duration(lateness, "--lateness")
    with opened("stream set", call, missing="create") as service:
        made = _set(service, name, lateness, live)
    if live is not None and made.live != live:
        warn(f"{name!r} is what a subscription publishes: it is live if all that it reads is")
    text = f"{name}: lateness {_lateness(made)}, {'live' if made.live else 'not live'}"
    answer(_shown(made), [text], as_json=call.as_json)


def _set(service: OpenedService, name: str, lateness: str | None, live: bool | None) -> Stream:
    """Set the lateness of a stream, and whether it is live; None leaves a value as it is."""
    if live is None:
        # The request would make the stream live.
        try:
            live = service.stream(name).live
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            live = False
    return service.create_stream(name, lateness=lateness, live=live)


def _shown(one: Stream) -> dict[str, Any]:
    return one.model_dump(include={"name", "lateness", "live", "documents"})


def _lateness(one: Stream) -> str:
    return duration(round(one.lateness * SECOND))
