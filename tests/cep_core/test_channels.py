"""A channel hands each row to the ports that listen, with their part of the membership."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from cep_core.dataflow.channels import Channel, members_of, slots_of, without_slot

SLOTS = st.sampled_from([0, 1, 2, 62, 63, 64, 65, 200])


@given(st.sets(SLOTS, min_size=1))
def test_membership_and_slots_are_inverse(slots: set[int]) -> None:
    members = members_of(sorted(slots))
    assert list(slots_of(members)) == sorted(slots)
    assert isinstance(members, int) is (max(slots) < 64)
    for slot in slots:
        left = without_slot(members, slot)
        assert (set(slots_of(left)) if left is not None else set()) == slots - {slot}


def test_slots_are_reused_lowest_first() -> None:
    channel = Channel(True)
    assert [channel.slot() for _ in range(3)] == [0, 1, 2]
    channel.release(1)
    channel.release(0)
    assert [channel.slot(), channel.slot(), channel.slot()] == [0, 1, 3]
