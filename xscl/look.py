"""A look at all that is kept, between two pushes, while the engine goes on pushing.

What is stored is read in a transaction of its own, which sees whole commits only.  What is in
memory beside it (the relations of the last push, who reads which stream) has to be of the same
moment.  An engine whose lock is free is simply looked at.  A push may hold the lock for seconds:
then `Engine` says what was there before it, and takes that back right before it commits; whoever
finds the same before and after the beginning of his transaction has both of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from templates.members import Row
from templates.processor import Pushed
from templates.registry import Variable
from xscl.store import Store


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to be seen: a store within a transaction, and what belongs to it.

    `readings` and `streams` are the tables of `xscl.lateness` and `xscl.streams`; `rows` are those
    of R_T by qid, `named` returns their pairs of variables by their numbers (what was registered
    last may not be written yet), and `qids` the rows that subscriptions use, by their names.
    """

    store: Store
    pushed: Pushed
    readings: pa.Table
    streams: pa.Table
    rows: Mapping[int, Row]
    named: Callable[[Iterable[int]], Sequence[tuple[int, Variable, Variable]]]
    qids: Callable[[Iterable[str]], set[int]]
