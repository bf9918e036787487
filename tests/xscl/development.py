"""A data directory of the last development version (schema 9), rebuilt from its tables as SQL.

`tests/data/development` was exported from a directory that this version wrote: subscriptions of
three users in all languages, streams, feeds with headers, endpoints, a secret address.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from xscl.store.commit_watermark import CommitPoint, write_watermark
from xscl.store.data_directory import DataDirectory
from xscl.store.verification import SEEN

SAMPLE = Path(__file__).parents[1] / "data" / "development"

ALICE = "xscl_458c4209_figwJ5PWu4ioflWqjD969TMw9vq8xAKHsp8eLhWoSdU"
"""A token of the user alice, as the store knows it."""

ADDRESS = "mo1Fah6xZ3g49o_c3rXDhFjSZeZXv0rQSKz5w0abza0"
"""The secret address of alice's subscription `dear`."""


def development_store(home: DataDirectory, *, log: bool = False) -> None:
    """Make the data directory; with `log` all of the tables are in the log of the database."""
    home.create()
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{home.database}' AS store; USE store")
        if log:
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute((SAMPLE / "schema_9.sql").read_text("utf-8"))
        ((store, commits),) = connection.execute(SEEN).fetchall()
    write_watermark(home.database, CommitPoint(store, int(commits)))
    shutil.copy(SAMPLE / "secrets.json", home.path)
