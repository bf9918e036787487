"""The service with a fault that the stress program has to find: threads share a connection.

Nothing keeps two threads from the connection that writes.  Of the first release, ordinary use ended
by such a fault: there the consumer's thread read each match through the engine's own connection.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from xscl.cli import main
from xscl.store.database import Database

_make = Database.__init__


def _make_without_lock(database: Database, *arguments: Any, **named: Any) -> None:
    _make(database, *arguments, **named)
    database.lock = nullcontext()  # type: ignore[assignment]  # the planted defect


def plant() -> None:
    """Replace the part of the product."""
    Database.__init__ = _make_without_lock  # type: ignore[assignment,method-assign]  # the planted defect


if __name__ == "__main__":
    plant()
    main()
