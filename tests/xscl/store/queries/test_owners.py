"""Conditions on the owners of names."""

from contextlib import closing

import pytest

from xscl.service.names import owner
from xscl.store.queries.owners import own_condition
from xscl.store.store import Store

NAMES = ["a", "_7.a", "_7.", "_77.a", "_7a.b", "_.a", "__7.a", "_7", "a_7.b", "", "_7._8.a"]


@pytest.mark.parametrize("number", [0, 7, 77, 8])
def test_a_condition_finds_the_names_of_an_owner(number: int) -> None:
    with closing(Store(None)) as store:
        condition = own_condition("name", number)
        for name in NAMES:
            rows = store.fetch(f"SELECT {condition} FROM (SELECT ? AS name)", [name])
            assert rows == [(owner(name)[0] == number,)], name
