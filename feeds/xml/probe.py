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
"""The size of a document: 8 bytes, little-endian."""

_READ = b"."


def read_all(source: BinaryIO, told: BinaryIO) -> None:
    """Parse each document of `source`, then write a byte to `told`, even if it is malformed."""
    while head := source.read(SIZE.size):
        (size,) = SIZE.unpack(head)
        xml = source.read(size)
        reached("probed")
        with suppress(MalformedDocument):  # it is reported when the document is accepted
            parse(xml)
        told.write(_READ)
        told.flush()


if __name__ == "__main__":
    read_all(sys.stdin.buffer, sys.stdout.buffer)
