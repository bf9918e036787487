"""Channels: streams whose rows carry a membership set (Hong 2009, section 5.3.1).

A channel encodes several streams, its slots; a row is stored and processed once however many of
them it belongs to.  Membership is a bit mask while all its slots are below 64, else a sorted tuple
(an AND of masks of 400,000 bits costs 5 µs).  Rows are handed on at once: `emit` calls the ports
that listen, each with the part of the membership that it listens to.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

from cep_core.events import VALUES, Row

Members: TypeAlias = int | tuple[int, ...]
Receive: TypeAlias = Callable[[Row, Members], None]
ReceiveAll: TypeAlias = Callable[[Sequence[Row], Members], None]
_MASKED = 64


def members_of(slots: Sequence[int]) -> Members:
    """Return the membership of ascending slots."""
    if slots[-1] >= _MASKED:
        return tuple(slots)
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


def slots_of(members: Members) -> Sequence[int]:
    """Return the slots of a membership, ascending."""
    if not isinstance(members, int):
        return members
    if not members & (members - 1):
        return (members.bit_length() - 1,) if members else ()
    slots = []
    while members:
        lowest = members & -members
        slots.append(lowest.bit_length() - 1)
        members ^= lowest
    return slots


def without_slots(members: Members, left_out: Container[int]) -> Members | None:
    """Return a membership without some slots, or None if nothing is left."""
    slots = [slot for slot in slots_of(members) if slot not in left_out]
    return members_of(slots) if slots else None


def paired(a: Row, b: Row) -> Row:
    """Return the row of a pair, a before b: it spans both and has the values of both."""
    return (a[0], b[1], a[2] if a[2] < b[2] else b[2], *a[VALUES:], *b[VALUES:])


class Port:
    """An input of an m-op: the function that is called with rows, and the slots that it listens to.

    ``mask`` has those of the slots that are below 64; ``seconds`` is the time that was spent in
    rows from a lane, a figure of the plan.  ``concerned`` returns a true value for a row of the
    next epoch to close that the m-op needs; None: it needs each.  Rows that come together are
    received one by one, unless there is a function for all.
    """

    __slots__ = ("concerned", "mask", "mop", "receive", "receive_all", "seconds", "slots")

    def __init__(
        self,
        mop: Any,
        receive: Receive,
        concerned: Callable[[Row], object] | None = None,
        receive_all: ReceiveAll | None = None,
    ) -> None:
        self.mop = mop
        self.receive = receive
        self.concerned = concerned
        self.receive_all = receive_all or self._each
        self.slots: dict[int, None] = {}
        self.mask = 0
        self.seconds = 0.0

    def _each(self, rows: Sequence[Row], members: Members) -> None:
        for row in rows:
            self.receive(row, members)


class Channel:
    """The streams that one m-op (or source) puts out.

    ``ordered`` says that each row is emitted while its epoch is processed.
    """

    __slots__ = ("_free", "_next", "live", "ordered", "ports", "routes", "rows", "sole")

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.routes: dict[int, list[Port]] = {}
        self.ports: dict[Port, int] = {}
        self.sole: Port | None = None
        self.live = 0  # slots in use
        self.rows = 0  # emitted so far: a figure of the plan
        self._free: list[int] = []
        self._next = 0

    def slot(self, allocated: int | None = None) -> int:
        """Take a slot into use and return it: the lowest free one, or one given by `allocated`.

        A channel either allocates all its slots or has those of its m-op's input channel.
        """
        self.live += 1
        self.sole = None
        if allocated is not None:
            return allocated
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def release(self, slot: int) -> None:
        """Release a slot: if this channel has allocated it, another stream may get it."""
        self.live -= 1
        if slot < self._next:  # allocated by this channel
            heappush(self._free, slot)

    def connect(self, port: Port, slot: int) -> None:
        """Add a port to those that get the rows of a slot."""
        self.routes.setdefault(slot, []).append(port)
        self.ports[port] = self.ports.get(port, 0) + 1
        port.slots[slot] = None
        if slot < _MASKED:
            port.mask |= 1 << slot
        self._find_sole()

    def disconnect(self, port: Port, slot: int) -> None:
        """Stop a port from listening to a slot."""
        self.routes[slot].remove(port)
        if not self.routes[slot]:
            del self.routes[slot]
        self.ports[port] -= 1
        if not self.ports[port]:
            del self.ports[port]
        del port.slots[slot]
        if slot < _MASKED:
            port.mask &= ~(1 << slot)
        self._find_sole()

    def emit(self, row: Row, members: Members) -> None:
        """Pass a row to the ports that listen to some of the streams in ``members``."""
        self.rows += 1
        if self.sole is not None:
            self.sole.receive(row, members)
            return
        if self.ports:
            for port, part in self._shares(members):
                port.receive(row, part)

    def emit_all(self, rows: Sequence[Row], members: Members) -> None:
        """Pass rows of the same streams to the ports that listen to these."""
        self.rows += len(rows)
        for port, part in self._shares(members):
            port.receive_all(rows, part)

    def _shares(self, members: Members) -> Iterable[tuple[Port, Members]]:
        """Return the ports that listen to slots of a membership, each with its part of it."""
        if isinstance(members, int):
            if not members & (members - 1):
                listening = self.routes.get(members.bit_length() - 1, ())
                return [(port, members) for port in listening]
            return [(port, members & port.mask) for port in self.ports if members & port.mask]
        shares: dict[Port, list[int]] = {}
        for slot in members:
            for port in self.routes.get(slot, ()):
                if port in shares:
                    shares[port].append(slot)
                else:
                    shares[port] = [slot]
        return [(port, members_of(slots)) for port, slots in shares.items()]

    def _find_sole(self) -> None:
        """Set `sole` to the only port if there is one and it listens to all slots in use, else
        None.
        """
        self.sole = None
        if len(self.ports) == 1:
            port = next(iter(self.ports))
            if len(port.slots) == self.live:
                self.sole = port
