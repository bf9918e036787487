"""An endpoint as a state machine: destination, cursor, failures and the time of the next attempt.

Transitions are pure functions that take the time as an argument, so tests need no waiting.  After
a failure the next attempt follows the schedule of Standard Webhooks, or the receiver's Retry-After
if that is longer.  At the end of the schedule the endpoint is disabled until it is enabled by hand.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_args
from urllib.parse import urlsplit

from feeds.formats.entries import without_user
from feeds.formats.times import SECOND
from xscl.delivery.cards import shortened
from xscl.delivery.message import CUT, Message
from xscl.polling.feed import HIDDEN, shown
from xscl.subscriptions.match import DocumentSource

EndpointState: TypeAlias = Literal["active", "paused", "disabled", "unconfirmed", "incomplete"]

NO_SECRET = "the secret of this endpoint is not on this machine: rotate it"
NO_ADDRESS = "the address has a secret that is not on this machine: give it again"
"""Notes of incomplete endpoints: a backup has no secrets."""

SCHEDULE: tuple[float, ...] = (
    *(5, 300, 1_800, 7_200, 18_000),
    *(36_000, 50_400, 72_000, 86_400),
)
"""Seconds from each failure to the next attempt; together three days and three hours."""
LONGEST_WAIT = 86_400.0
"""Maximum Retry-After in seconds."""
LONGEST_TEXT = 3_900
"""Most bytes of the lines for Slack or ntfy, which make a file of a text of more than 4,096."""
LONGEST_URL = 2_000
"""Most characters of a document's address in these messages: servers limit headers."""
JITTER = 0.1
"""Largest share by which a wait is changed at random, against synchronised retries."""


class Posted(NamedTuple):
    """The body of a POST, and the headers that its channel adds."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Channel:
    """The settings of all channels; `history` and `backfilled` matches are delivered on request.

    `target` names the field with the address, which has a `form`; `rule` says which in words.
    Only the operator has channels that `is_operators`.
    Messages of a channel that `has_html` have the documents as HTML, too.  One that `tells_once`
    has one message for each story, others one each time it grows.  If `grouped`, matches on the
    same documents are one message.
    """

    kind: ClassVar[str]
    target: ClassVar[str]
    form: ClassVar[re.Pattern[str]] = re.compile(".*", re.DOTALL)
    rule: ClassVar[str] = ""
    is_operators: ClassVar[bool] = False
    has_html: ClassVar[bool] = False
    tells_once: ClassVar[bool] = False

    history: bool = False
    grouped: bool = True
    backfilled: bool = False


@dataclass(frozen=True, slots=True)
class Webhook(_Channel):
    """A POST for each message; `url` is the address with secrets redacted.

    Bodies are signed if the channel `is_signed`.
    """

    kind: ClassVar[str] = "webhook"
    target = "url"
    is_signed: ClassVar[bool] = True
    url: str

    def redacted(self) -> Self:
        """Return the channel with an address without its secrets."""
        return replace(self, url=shown(self.url))

    def posted(self, message: Message) -> Posted:
        """Return the body and headers of a message."""
        return Posted(message.json(), {"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True)
class Slack(Webhook):
    """A text for an incoming webhook of Slack, or of a program that reads its form (Mattermost,
    Rocket.Chat, Discord with `/slack` behind the address)."""

    kind, is_signed, tells_once = "slack", False, True

    def redacted(self) -> Self:
        """Return the channel with only the host of its address: who knows the path may post."""
        parts = urlsplit(without_user(self.url))
        return replace(self, url=f"{parts.scheme}://{parts.netloc}/{HIDDEN}")

    def posted(self, message: Message) -> Posted:
        """Return the documents as links below the name of the subscription."""
        lines = [f"*{_in_slack(message.subscription)}*"]
        for source in message.sources:
            label, url = _in_slack(shortened(source.label, CUT)), _linked(source)
            lines.append(f"• <{_in_slack(url)}|{label}>" if url else f"• {label}")
        lines += map(_in_slack, message.told)
        body = json.dumps({"text": "\n".join(_fitting(lines))})
        return Posted(body.encode(), {"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True)
class Ntfy(Webhook):
    """A notification of ntfy (https://ntfy.sh): `url` is that of a topic."""

    kind, is_signed, tells_once = "ntfy", False, True

    def posted(self, message: Message) -> Posted:
        """Return the lines of a message; a tap opens its first document that has an address."""
        labels = [shortened(one.label, CUT) for one in message.sources]
        text = "\n".join(_fitting([*labels, *message.told]))
        urls = [url for source in message.sources if (url := _linked(source))]
        headers = {"Content-Type": "text/plain; charset=utf-8", "Title": _in_header(message.title)}
        if urls and urls[0].isascii() and urls[0].isprintable():
            headers["Click"] = urls[0]
        return Posted(text.encode(), headers)


@dataclass(frozen=True, slots=True)
class Mail(_Channel):
    """A mail for each message, or a digest of the messages of `every` seconds."""

    kind, target, has_html, tells_once = "mail", "to", True, True
    form = re.compile(
        r"(?!.{255})[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*"
    )
    rule = "that is not one mail address"
    to: str
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class File(_Channel):
    """A line of JSON for each message, in a file of the data directory."""

    kind, target, is_operators = "file", "name", True
    form = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
    rule = "a file has a plain name: letters, digits, '.', '_', '-'"
    name: str


DeliveryChannel: TypeAlias = Webhook | Slack | Ntfy | Mail | File
"""A channel: a sender in `xscl.delivery.channels`, a model of the API and a page of the
documentation belong to it (`tests/xscl/service/test_deliveries.py`)."""

CHANNELS: Mapping[str, type[DeliveryChannel]] = {one.kind: one for one in get_args(DeliveryChannel)}
"""The channels by kind."""


def _fitting(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first lines that fit into `LONGEST_TEXT`, and an ellipsis for the others."""
    left = LONGEST_TEXT
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            yield "\N{HORIZONTAL ELLIPSIS}"
            return
        yield line


def _linked(source: DocumentSource) -> str:
    """Return the address of a document, empty if it has none or a very long one."""
    return source.url if source.url and len(source.url) <= LONGEST_URL else ""


def _in_slack(text: str) -> str:
    """Escape the characters that have a meaning in Slack's texts."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "¦").replace("\n", " ")


def _in_header(text: str) -> str:
    """Return a text as an encoded word of RFC 2047, if it is not plain ASCII."""
    if text.isascii() and text.isprintable():
        return text
    return f"=?UTF-8?B?{base64.b64encode(text.encode()).decode()}?="


def written(channel: DeliveryChannel) -> str:
    """Serialize a channel as JSON for the table of endpoints."""
    return json.dumps(asdict(channel))


def read(kind: str, text: str) -> DeliveryChannel:
    """Parse a channel of a kind from its JSON."""
    return CHANNELS[kind](**json.loads(text))


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver accepted the messages."""


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The send failed; `wait` is the receiver's Retry-After in seconds."""

    reason: str
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """The messages were not sent and are due in `seconds`; this does not count as a failure."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ReceiverGone:
    """The receiver permanently rejects messages (410)."""

    reason: str


SendOutcome: TypeAlias = Delivered | SendFailed | Later | ReceiverGone


class Sender(NamedTuple):
    """Sends to one endpoint; the delivery loop makes one call of `send` at a time.

    A call has messages in order, at most `most`.  `every` is the interval of digests in seconds,
    counted from the first message, 0 without.  Concurrent sends are limited by `host`.
    """

    send: Callable[[Sequence[Message]], Coroutine[Any, Any, SendOutcome]]
    host: str
    most: int = 1
    every: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class EndpointSecrets:
    """Secrets of an endpoint: the full address and the signing keys, newest first."""

    url: str = ""
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of a subscription, which is given by its name in the engine.

    Everything up to `position` is delivered or among its dead letters.  `failures` counts
    consecutive failures.  `next_try` is a time in ticks, 0 for immediately.  `note` is the text of
    the last failure.
    An unconfirmed endpoint waits for the confirmation code of its mail address, an incomplete one
    for a secret that is not on this machine, as after a restore.
    """

    id: str
    subscription: str
    channel: DeliveryChannel
    created: int
    position: int = 0
    state: EndpointState = "active"
    failures: int = 0
    next_try: int = 0
    note: str = ""

    def delivered(self, position: int) -> Endpoint:
        """Advance the cursor to a delivered position; reset failures."""
        at = max(position, self.position)
        return replace(self, position=at, failures=0, next_try=0, note="")

    def passed(self, position: int) -> Endpoint:
        """Advance the cursor to a position up to which there was nothing to deliver."""
        return replace(self, position=max(position, self.position))

    def failed(
        self, why: SendFailed, now: int, chance: float, schedule: tuple[float, ...]
    ) -> Endpoint:
        """Count a failure: schedule the next attempt, or disable after the last one.

        `chance` is a random number from 0 to 1.
        """
        attempt = self.failures + 1
        wait = next_wait(attempt, why.wait, chance, schedule)
        if wait is None:
            note = f"disabled after {attempt} attempts: {why.reason}"
            return replace(self, state="disabled", failures=attempt, next_try=0, note=note)
        return replace(self, failures=attempt, next_try=now + int(wait * SECOND), note=why.reason)

    def held(self, later: Later, now: int) -> Endpoint:
        """Postpone the next attempt without counting a failure."""
        return replace(self, next_try=now + int(later.seconds * SECOND), note=later.reason)

    def stopped(self, note: str) -> Endpoint:
        """Return the endpoint as disabled, with a note of the reason."""
        return replace(self, state="disabled", next_try=0, note=note)

    def paused(self) -> Endpoint:
        """Pause the endpoint: its matches stay queued."""
        return replace(self, state="paused")

    def completed(self, lacking: str) -> Endpoint:
        """Return it as incomplete with the note `lacking`, or if that is empty, as active again."""
        if lacking and self.state in ("active", "incomplete"):
            return replace(self, state="incomplete", failures=0, next_try=0, note=lacking)
        return self.resumed() if self.state == "incomplete" else self

    def resumed(self) -> Endpoint:
        """Activate the endpoint; reset failures."""
        return replace(self, state="active", failures=0, next_try=0, note="")


def next_wait(
    attempt: int, asked: float | None, chance: float, schedule: tuple[float, ...]
) -> float | None:
    """Return the seconds to wait after a failed attempt (from 1); None after the last one.

    `asked` is the receiver's Retry-After in seconds, `chance` a random number from 0 to 1.
    """
    if attempt > len(schedule):
        return None
    wait = schedule[attempt - 1] * (1 + JITTER * (2 * chance - 1))
    return max(wait, min(asked or 0.0, LONGEST_WAIT))
