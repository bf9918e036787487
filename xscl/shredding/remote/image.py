"""An image of the automaton beside the store: a restart installs only missing pairs.

Rebuilding places and their index takes longer than all else of a restart.  Correctness does not
depend on the file.  It begins with a digest of its bytes and of the code that defines their
meaning, and has a digest of the definitions of each pair.  So a missing, damaged or outdated image
costs time only.

It is a pickle of classes of stage 1 only, and lies in the data directory, which only its owner can
write.  The digest is no secret: a writer of the directory could forge an image with wrong matches,
as well as a wrong store.  A forged image cannot call anything but those classes.
"""

from __future__ import annotations

import io
import logging
import math
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from templates.model.relations import Pair
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.remote.artefact import Pickler

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

FEWEST = 5_000
"""Pairs up to which there is no image: asking for them takes a fraction of a second."""
CHANGED = 4
"""An image is written again when one of so many pairs has changed."""
_SIZE = 32  # bytes of a digest
_CODE = (
    *("xscl/shredding/**/*.py", "xscl/language/*.py", "xscl/language/*.lark"),
    *("xscl/planning/*.py", "templates/**/*.py", "xscl/time_format.py", "feeds/formats/times.py"),
    *("cep_core/algebra/calendars.py", "cep_core/algebra/function_bounds.py", "cep_core/events.py"),
)

_log = logging.getLogger(__name__)


class AutomatonImage:
    """The file of an automaton; without a path there is none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[int, bytes] = {}  # of each pair that the automaton was read with
        self._then = 0  # changes of the automaton that the file has

    def automaton(self) -> Automaton:
        """Return the automaton; an empty one without a usable image."""
        if self._path is None:
            return Automaton()
        try:
            with self._path.open("rb") as file:
                digest, data = file.read(_SIZE), file.read()
        except OSError:
            return Automaton()
        if digest != _digest(data):
            return Automaton()
        automaton: Automaton
        try:
            automaton, self._known = _Unpickler(io.BytesIO(data)).load()
        except Exception as error:  # it only saves time
            _log.warning("the image %s was not read: %r", self._path, error)
            return Automaton()
        return automaton

    def missing(self, automaton: Automaton, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs that have to be installed; remove those that are not needed any more."""
        known, self._known = self._known, {}
        same = {pair.number for pair in pairs if known.get(pair.number) == _digest_of(pair)}
        for number in known.keys() - same:
            automaton.remove(number)
        return [pair for pair in pairs if pair.number not in same]

    def keep(
        self, automaton: Automaton, described: Callable[[int], Pair], until: float = math.inf
    ) -> None:
        """Write the automaton, if it is large and has changed much since it was read or written.

        If that fails, or exceeds `until` on the monotonic clock, it is logged, and the partial file
        is deleted.
        """
        path = self._path
        if path is None or len(automaton) < FEWEST:
            return
        if (automaton.changes - self._then) * CHANGED < len(automaton):
            return
        temporary = path.with_name(f"{path.name}.tmp")
        try:
            known: dict[int, bytes] = {}
            for number in automaton:
                _expect_time(until)
                pair = replace(described(number), valued=automaton.is_valued(number))
                known[number] = _digest_of(pair)
            data = _pickled((automaton, known), until)
            _expect_time(until)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(_digest(data))
                file.write(data)
            temporary.replace(path)
        except Exception as error:  # it only saves time
            _log.warning("the image %s was not written: %r", path, error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        self._then = automaton.changes


def _digest_of(pair: Pair) -> bytes:
    """Return a digest that differs for different pairs."""
    text = f"{len(pair.first)} {pair.valued} {pair.first}{pair.second}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Timed(io.BytesIO):
    """A buffer that accepts bytes until a deadline; a pickle writes its frames one by one."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until

    def write(self, data: Buffer, /) -> int:
        """Write bytes. Raises TimeoutError after the deadline."""
        _expect_time(self._until)
        return super().write(data)


def _expect_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("the service ends")


def _pickled(value: object, until: float) -> bytes:
    file = _Timed(until)
    Pickler(file).dump(value)
    return file.getvalue()


def _digest(data: bytes) -> bytes:
    return blake2b(data, key=_code(), digest_size=_SIZE).digest()


@cache
def _code() -> bytes:
    """Return a digest of the code that determines an image."""
    found = blake2b(digest_size=_SIZE)
    for path in code():
        found.update(path.read_bytes())
    return found.digest()


def code() -> list[Path]:
    """Return the files that define definitions, their meaning and their storage."""
    root = Path(__file__).parents[3]
    return sorted(path for pattern in _CODE for path in root.glob(pattern))


class _Unpickler(pickle.Unpickler):
    """Creates only objects of classes of stage 1 and of the language's syntax."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "Counter"):
            return Counter
        if _is_ours(module) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and _is_ours(found.__module__):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} belongs to no automaton")


def _is_ours(module: str) -> bool:
    return module.startswith("xscl.shredding.") or module == "xscl.language.syntax"
