"""An endpoint: where a subscription's matches are brought, how far that has come, and what now.

The transitions are functions of the time, so what happens to an endpoint in four days is tested in
no time.  After a failure the next attempt waits as the schedule of Standard Webhooks says, or
longer where the receiver asks for it; when the schedule is over the endpoint is disabled, and
stays so until somebody enables it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, assert_never

from feeds.times import SECOND

Kind: TypeAlias = Literal["webhook", "mail", "file"]
State: TypeAlias = Literal["active", "paused", "disabled", "unconfirmed"]

SCHEDULE: tuple[float, ...] = (
    *(5, 300, 1_800, 7_200, 18_000),
    *(36_000, 50_400, 72_000, 86_400),
)
"""Seconds from each failure to the next attempt: three days and three hours in all."""
LONGEST_WAIT = 86_400.0
"""Seconds that a receiver can ask for, at most."""
JITTER = 0.1
"""How much of a wait is left to chance, so that not all come back at the same time."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A POST for each message; `url` is the address as it may be shown."""

    url: str
    history: bool = False
    grouped: bool = True


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail for each message, or one for all that came within so many seconds."""

    to: str
    every: float = 0.0
    history: bool = False
    grouped: bool = True


@dataclass(frozen=True, slots=True)
class File:
    """A line of JSON for each message, in a file of the data directory."""

    name: str
    history: bool = False
    grouped: bool = True


Way: TypeAlias = Webhook | Mail | File


def kind_of(way: Way) -> Kind:
    """Return the name of a way."""
    match way:
        case Webhook():
            return "webhook"
        case Mail():
            return "mail"
        case File():
            return "file"
        case _:
            assert_never(way)


def written(way: Way) -> str:
    """Return a way as text, for the table of endpoints."""
    return json.dumps(asdict(way))


def read(kind: str, text: str) -> Way:
    """Return the way that a text describes."""
    fields: Mapping[str, Any] = json.loads(text)
    made: dict[str, type[Way]] = {"webhook": Webhook, "mail": Mail, "file": File}
    return made[kind](**fields)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The messages have been taken."""


@dataclass(frozen=True, slots=True)
class Failed:
    """They have not; `answered` says that somebody was there and did not want them.

    `wait` is for how many seconds the receiver asked to be left alone.
    """

    reason: str
    answered: bool = False
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """They have not been sent, and will not be for so many seconds; that is no failure."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The receiver wants no messages any more."""

    reason: str


Outcome: TypeAlias = Delivered | Failed | Later | Gone


@dataclass(frozen=True, slots=True, repr=False)
class Hidden:
    """What is secret of an endpoint: its address, and what signs, the newest first."""

    url: str = ""
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of a subscription, by the name that the engine knows.

    Everything up to `position` is delivered or among the letters.  `failures` counts those in a
    row; `next_try` is a time in ticks, 0 for at once; `note` says what the last failure was.
    One that is unconfirmed waits until somebody proves that the mail address is his.
    """

    id: str
    subscription: str
    way: Way
    created: int
    position: int = 0
    state: State = "active"
    failures: int = 0
    next_try: int = 0
    note: str = ""

    def delivered(self, position: int) -> Endpoint:
        """Return the endpoint when everything up to a position has been delivered."""
        at = max(position, self.position)
        return replace(self, position=at, failures=0, next_try=0, note="")

    def passed(self, position: int) -> Endpoint:
        """Return the endpoint when there was nothing to deliver up to a position."""
        return replace(self, position=max(position, self.position))

    def failed(self, why: Failed, now: int, chance: float, schedule: tuple[float, ...]) -> Endpoint:
        """Return the endpoint after a failure: it waits, or is disabled if that was the last try.

        `chance` is a random number from 0 to 1.
        """
        attempt = self.failures + 1
        wait = next_wait(attempt, why.wait, chance, schedule)
        if wait is None:
            note = f"disabled after {attempt} attempts: {why.reason}"
            return replace(self, state="disabled", failures=attempt, next_try=0, note=note)
        return replace(self, failures=attempt, next_try=now + int(wait * SECOND), note=why.reason)

    def held(self, later: Later, now: int) -> Endpoint:
        """Return the endpoint when it has to wait without having failed."""
        return replace(self, next_try=now + int(later.seconds * SECOND), note=later.reason)

    def stopped(self, note: str) -> Endpoint:
        """Return the endpoint disabled."""
        return replace(self, state="disabled", next_try=0, note=note)

    def paused(self) -> Endpoint:
        """Return the endpoint paused: matches wait for it."""
        return replace(self, state="paused")

    def resumed(self) -> Endpoint:
        """Return the endpoint active, as if it had never failed."""
        return replace(self, state="active", failures=0, next_try=0, note="")


def next_wait(
    attempt: int, asked: float | None, chance: float, schedule: tuple[float, ...]
) -> float | None:
    """Return the seconds from the failure of an attempt (from 1) to the next one, None for none."""
    if attempt > len(schedule):
        return None
    wait = schedule[attempt - 1] * (1 + JITTER * (2 * chance - 1))
    return max(wait, min(asked or 0.0, LONGEST_WAIT))
