"""The file of a snapshot: tables one after another.

table   table   ...   (Arrow IPC streams; the metadata of a schema has the table's name)
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

Tables: TypeAlias = dict[str, pa.Table]
_NAME = b"name"


def write(descriptor: int, tables: Tables) -> None:
    """Write tables one after another."""
    with open(descriptor, "wb", closefd=False) as file:
        for name, table in tables.items():
            named = table.replace_schema_metadata({_NAME: name})
            with pa.ipc.new_stream(file, named.schema) as writer:
                writer.write_table(named)


def read(memory: pa.Buffer) -> Tables:
    """Return the tables of a snapshot's file by name, without a copy of its bytes."""
    source, tables = pa.BufferReader(memory), Tables()
    while source.tell() < source.size():
        table = pa.ipc.open_stream(source).read_all()
        tables[table.schema.metadata[_NAME].decode()] = table
    return tables
