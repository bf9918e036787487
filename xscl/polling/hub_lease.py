"""The lease of a feed at its WebSub hub: for how long the hub sends what is new.

    asked     the hub was asked, and has not confirmed yet
    active    it has confirmed, and sends until the lease ends; it is asked again before
    denied    it refuses; it is asked again after a day
    failed    it cannot be reached, or has not confirmed; it is asked again, later each time

The feed is polled as if it had no hub, and at once when the hub sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

LeaseState: TypeAlias = Literal["asked", "active", "denied", "failed"]


@dataclass(frozen=True, slots=True)
class HubLease:
    """A lease; the fields are the columns of `state.feed_lease`, times are ticks.

    `callback` is the hash of the secret part of the address to which the hub sends.  `asked` is the
    last request to the hub, `due` the next one, `confirmed` the last confirmation of a request, and
    `until` the end of the lease.  `failures` counts requests since then.  `delivered` is the last
    of `deliveries`.
    """

    key: str
    hub: str
    topic: str
    callback: str
    asked: int
    due: int
    confirmed: int | None = None
    until: int | None = None
    failures: int = 0
    denied: bool = False
    note: str | None = None
    deliveries: int = 0
    delivered: int | None = None

    @property
    def state(self) -> LeaseState:
        if self.until is not None:
            return "active"
        if self.denied:
            return "denied"
        return "asked" if self.note is None else "failed"


def lease_row(lease: HubLease | None) -> dict[str, Any]:
    """Return a lease for output, times in ticks; without one, None everywhere but in the count."""
    return {
        "push": None if lease is None else lease.state,
        "push_until": None if lease is None else lease.until,
        "pushed": None if lease is None else lease.delivered,
        "pushes": 0 if lease is None else lease.deliveries,
        "push_note": None if lease is None else lease.note,
    }
