"""A lent name stands for the table lent last, whatever transaction it was lent in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from itertools import count

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from xscl.store.lent_tables import FEW
from xscl.store.store import Store

lent = st.tuples(st.sampled_from("xy"), st.sampled_from("ab"), st.sampled_from([1, FEW + 1]))
blocks = st.tuples(st.sampled_from(["none", "read", "fail", "commit"]), st.lists(lent, max_size=3))


class Failed(Exception):
    pass


def blocks_of(store: Store) -> dict[str, Callable[[], AbstractContextManager[object]]]:
    changing = dict.fromkeys(("fail", "commit"), store.transaction)
    return {"none": nullcontext, "read": store.reading, **changing}


def expect(store: Store, name: str, column: str, rows: range) -> None:
    found = store.fetch(f"SELECT count({column}), min({column}) FROM {name}")
    assert found == [(len(rows), rows.start)]


ONE = ("x", "a", 1)


@example([("read", [ONE]), ("none", [ONE])], False)
@example([("none", [ONE]), ("fail", []), ("read", [ONE]), ("none", [ONE])], False)
@given(st.lists(blocks, max_size=8), st.booleans())
@examples(80)
def test_a_name_stands_for_what_was_lent_last(
    told: list[tuple[str, list[tuple[str, str, int]]]], journalled: bool
) -> None:
    numbers = count()
    with closing(Store(None, journalled=journalled)) as store:
        for block, several in told:
            within = blocks_of(store)[block]
            with suppress(Failed), within():
                for name, column, size in several:
                    first = next(numbers)
                    rows = range(first, first + size)
                    store.lend(name, pa.table({column: pa.array(rows, pa.int64())}))
                    expect(store, name, column, rows)
                if block == "fail":
                    raise Failed
