"""Readers of the plan that are no m-ops: of results, of published matches, of inputs of joins."""

from __future__ import annotations

from collections.abc import Callable

from cep_core.plan import Members, Operator, Port, Row


class Reader:
    """Reads the rows of one operator until it is closed; `label` says what for."""

    def __init__(
        self, label: str, source: Operator, receive: Callable[[Row, Members], None]
    ) -> None:
        self.label = label
        self._source = source
        self._port = Port(self, receive)
        source.channel.connect(self._port, source.slot)

    def close(self) -> None:
        """Disconnect from the channel."""
        self._source.channel.disconnect(self._port, self._source.slot)
