"""`xscl status`: the figures of a data directory or of a running service."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from xscl.cli.options import Call, Place, home
from xscl.cli.output import answer
from xscl.ingestion.data_directory import SERVICE, DataDirectoryError
from xscl.service.figures import ServiceStatus
from xscl.time_format import ticks_of_time


def status(call: Call) -> None:
    """Show what is registered, how much came in, and what waits; also of a running service.

    \b
    Example:
      xscl status --json
    """
    figures, note = figures_of_running(call), None
    if figures is not None:
        found, note = _of_service(figures)
    else:
        from xscl.cli.service import refuse_token
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
    process = {
        "service": (figures or {}).get("pid"),
        "address": (figures or {}).get("address") or None,
    }
    lines = (*([] if note is None else [note]), *found.lines())
    answer({**found.as_dict(), **process}, lines, as_json=call.as_json)


def figures_of_running(place: Place) -> dict[str, Any] | None:
    """Return the figures of a running service, None if none runs.

    Those on a data directory are read from its file, which needs no token.
    """
    if place.url is not None:
        # The figures on a data directory are read without a client.
        from xscl.cli.service import service_at

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


def _of_service(written: dict[str, Any]) -> tuple[ServiceStatus, str]:
    """Return the figures of a running service, and lines about its process."""
    try:
        found, then = ServiceStatus.of(written), ticks_of_time(written["written"])
    except (KeyError, TypeError, AttributeError):
        raise DataDirectoryError(
            f"the service (process {written.get('pid')}) is of another release, whose status is"
            " not known here",
            hint="ask with the release that runs, or start the service anew",
        ) from None
    age = 0.0 if then is None else time.time() - then / 1e6
    where = f" at {written['address']}" if written.get("address") else ""
    threads = f", {written['threads']} threads" if "threads" in written else ""
    note = f"service        process {written['pid']}{where}{threads}, {age:.0f} s ago"
    if stalled := written.get("stalled"):
        note += (
            f"\nconsumer       stalled: segment {stalled['segment']} waits"
            f" for {stalled['seconds']:.0f} s, and nothing was committed"
        )
    if written.get("wall_clock", "ok") != "ok":
        note += f"\nwall clock     {written['wall_clock_ahead']:+.0f} s against the service's clock"
    return found, note
