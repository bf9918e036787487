"""`xscl status`: the figures of a data directory or of a running service."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from xscl.cli.options import Call, Place, home
from xscl.cli.output import answer
from xscl.ingestion.data_directory import SERVICE, DataDirectoryError
from xscl.service.figures import lines
from xscl.time_format import ticks_of_time, ticks_to_second


def status(call: Call) -> None:
    """Show what is registered, how much came in, and what waits; also of a running service.

    \b
    Example:
      xscl status --json
    """
    running = figures_of_running(call)
    if running is None:
        from xscl.cli.connection import refuse_token
        from xscl.engine.facade import Engine
        from xscl.service.status import status as status_of

        refuse_token(call)
        at = home(call.data)
        at.expect()
        with (
            at.hold("status"),
            Engine(at.database, owns_process=True) as engine,
            closing(engine.connect()) as store,
        ):
            found = status_of(store, at, engine)
        answer(
            {**found, "service": None, "address": None},
            lines(found, ticks_to_second),
            as_json=call.as_json,
        )
        return
    try:
        shown = [_process(running), *lines(running, ticks_to_second)]
    except (KeyError, TypeError, AttributeError):
        raise DataDirectoryError(
            f"the service (process {running.get('pid')}) is of another release, whose status is"
            " not known here",
            hint="ask with the release that runs, or start the service anew",
        ) from None
    process = {"service": running["pid"], "address": running["address"] or None}
    answer(running | process, shown, as_json=call.as_json)


def figures_of_running(place: Place) -> dict[str, Any] | None:
    """Return the figures of a running service, None if none runs.

    Without `url` they are read from a file of the data directory, which needs no token.
    """
    if place.url is not None:
        # The figures on a data directory are read without a client.
        from xscl.cli.connection import service_at

        with service_at(place.url, place.token) as service:
            return service.figures()
    at = home(place.data)
    holder = at.holder()
    if holder is None or holder.command != SERVICE:
        return None
    written = at.read_status()
    if written is None or written.get("pid") != holder.pid:
        raise DataDirectoryError(
            f"the service (process {holder.pid}) has not written its status yet",
            hint="try again soon",
        )
    return written


def _process(running: dict[str, Any]) -> str:
    """Return the lines about the process of a service."""
    then = ticks_of_time(running["written"])
    age = 0.0 if then is None else time.time() - then / 1e6
    where = f" at {running['address']}" if running.get("address") else ""
    threads = f", {running['threads']} threads" if "threads" in running else ""
    note = f"service        process {running['pid']}{where}{threads}, {age:.0f} s ago"
    if stalled := running.get("stalled"):
        note += (
            f"\nconsumer       stalled: segment {stalled['segment']} waits"
            f" for {stalled['seconds']:.0f} s, and nothing was committed"
        )
    if running.get("wall_clock", "ok") != "ok":
        note += f"\nwall clock     {running['wall_clock_ahead']:+.0f} s against the service's clock"
    return note
