"""A channel hands each row to the ports that listen, with their part of the membership."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of, without_slot
from cep_core.events import Row

SLOTS = st.sampled_from([0, 1, 2, 62, 63, 64, 65, 200])


@given(st.sets(SLOTS, min_size=1))
def test_membership_and_slots_are_inverse(slots: set[int]) -> None:
    members = members_of(sorted(slots))
    assert list(slots_of(members)) == sorted(slots)
    assert isinstance(members, int) is (max(slots) < 64)
    for slot in slots:
        left = without_slot(members, slot)
        assert (set(slots_of(left)) if left is not None else set()) == slots - {slot}


@given(
    listening=st.lists(st.sets(SLOTS), max_size=4),
    dropped=st.sets(SLOTS),
    rows=st.lists(st.sets(SLOTS, min_size=1), min_size=1, max_size=4),
)
def test_ports_get_what_they_listen_to(
    listening: list[set[int]], dropped: set[int], rows: list[set[int]]
) -> None:
    channel = Channel(True)
    got: list[list[set[int]]] = [[] for _ in listening]

    def taker(place: int) -> Port:
        def take(row: Row, members: Members) -> None:
            got[place].append(set(slots_of(members)))

        return Port(None, take)

    for slot in {slot for slots in listening for slot in slots} | {s for row in rows for s in row}:
        channel.slot(slot)
    for place, slots in enumerate(listening):
        port = taker(place)
        for slot in sorted(slots):
            channel.connect(port, slot)
        for slot in sorted(slots & dropped):
            channel.disconnect(port, slot)
    for row in rows:
        channel.emit((0, 0, 0), members_of(sorted(row)))
    for place, slots in enumerate(listening):
        left = slots - dropped
        assert got[place] == [row & left for row in rows if row & left]


def test_slots_are_reused_lowest_first() -> None:
    channel = Channel(True)
    assert [channel.slot() for _ in range(3)] == [0, 1, 2]
    channel.release(1)
    channel.release(0)
    assert [channel.slot(), channel.slot(), channel.slot()] == [0, 1, 3]
