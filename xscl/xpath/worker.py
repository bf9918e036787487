"""A process that shreds documents for another one, which calls `main` in it.

Messages come on standard input and answers go to standard output, each a pickle after its length.
The automaton is a copy: it is told of every change, in order, so documents that come after a change
are shredded with it.
"""

from __future__ import annotations

import gc
import pickle
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, TypeAlias, assert_never

from templates.relations import Pair
from xscl.xpath.asking import ask
from xscl.xpath.nfa import Automaton
from xscl.xpath.portions import Portion, Text, portion_of

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked of stage 1 from now on: pairs of variables that are new, and that are gone."""

    gone: tuple[int, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Shred:
    """Documents to be shredded; the portion is to have this version."""

    version: str
    texts: Sequence[Text]


Message: TypeAlias = "Change | Shred"


def write(stream: IO[bytes], value: object) -> None:
    """Send a value."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read(stream: IO[bytes]) -> Any:
    """Return the next value; raises EOFError at the end."""
    size = stream.read(_LENGTH.size)
    if len(size) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(size)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def answered(automaton: Automaton, message: Message) -> Portion | None:
    """Return the answer to a message: the witnesses of documents, None for a change."""
    match message:
        case Change(gone, pairs):
            for number in gone:
                automaton.remove(number)
            ask(automaton, pairs)
            gc.freeze()
            return None
        case Shred(version, texts):
            return portion_of(automaton, version, texts)
        case _:
            assert_never(message)


def main() -> None:
    """Answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process ends it
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    gc.disable()  # what there is stays; a portion makes no cycles
    automaton = Automaton()
    while True:
        try:
            message = read(incoming)
        except EOFError:
            return
        write(outgoing, answered(automaton, message))
