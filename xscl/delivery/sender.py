"""What brings messages to an endpoint: the webhook, the mail, the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xscl.delivery.endpoint import Outcome
from xscl.delivery.message import Message


class Sender(Protocol):
    """Brings messages to one endpoint; the loop of deliveries calls it, one call at a time."""

    @property
    def most(self) -> int:
        """How many messages it takes at once."""

    @property
    def every(self) -> float:
        """Seconds that messages are gathered for, from the first one on."""

    @property
    def host(self) -> str:
        """Where it goes to: what is slow there must not be asked by many at once."""

    async def send(self, messages: Sequence[Message]) -> Outcome:
        """Bring messages, in order, and return what came of it."""
