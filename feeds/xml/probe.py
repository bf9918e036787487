"""A process that reads documents, and may die of one: `python -m feeds.xml.probe`.

Each document comes on standard input as its size and its bytes.  Of each that was read, whether it
is well-formed or not, a byte is written to standard output: whoever counts them knows of which one
the process has died.
"""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from typing import BinaryIO

from feeds.errors import MalformedDocument
from feeds.faultpoints import reached
from feeds.xml.xmlparse import parse

SIZE = struct.Struct("<Q")
"""The form of the size of a document."""

_READ = b"."


def read_all(source: BinaryIO, told: BinaryIO) -> None:
    """Read documents, and tell of each one that it was read."""
    while head := source.read(SIZE.size):
        (size,) = SIZE.unpack(head)
        xml = source.read(size)
        reached("probed")
        with suppress(MalformedDocument):  # which is told when it is taken: here it ends nothing
            parse(xml)
        told.write(_READ)
        told.flush()


if __name__ == "__main__":
    read_all(sys.stdin.buffer, sys.stdout.buffer)
