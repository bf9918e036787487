"""The interface of the channels: webhook, mail, file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xscl.delivery.endpoint import Outcome
from xscl.delivery.message import Message


class Sender(Protocol):
    """Sends messages to one endpoint; the delivery loop makes one call at a time."""

    @property
    def most(self) -> int:
        """Maximum number of messages in one call of `send`."""

    @property
    def every(self) -> float:
        """Digest interval in seconds, counted from the first message; 0 for none."""

    @property
    def host(self) -> str:
        """The destination by which concurrent sends are limited."""

    async def send(self, messages: Sequence[Message]) -> Outcome:
        """Send messages in order and return the outcome."""
