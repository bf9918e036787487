"""The log of a simulated service: an error without a fault is a violation."""

from __future__ import annotations

import logging

from tests.simulation.host import Host


class ServiceLog(logging.Handler):
    """Records warnings as events, and errors as violations unless a fault is to blame."""

    def __init__(self, host: Host) -> None:
        super().__init__(logging.WARNING)
        self._host = host

    def emit(self, record: logging.LogRecord) -> None:
        """Record a message with its exception."""
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() + ("" if error is None else f" ({error!r})")
        if record.levelno >= logging.ERROR and not self._host.is_disturbed:
            self._host.journal.wrong(f"the log says: {text}")
        else:
            self._host.journal.note(f"log: {text}")
