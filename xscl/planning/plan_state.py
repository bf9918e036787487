"""State of operators over time: the log of its changes, and what it keeps alive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import cep_core
from cep_core import AttributeType
from cep_core.plan import Operator, StateMOp
from xscl.documents.composite_events import Composite, composite_of

_STREAMS = "streams"


def _composite(text: str) -> Composite:
    return composite_of(json.loads(text))


COMPOSITE = AttributeType(Composite, json.dumps, _composite)


def _query(name: str) -> str:
    """Return the name that holds the operators of a subscription in the log."""
    return f"query {name}"


class PlanState:
    """The state log of the core, and the instances that its m-ops keep."""

    def __init__(self, core: cep_core.Engine) -> None:
        self._core = core
        self._log = core.keep_log()

    def hold(self, name: str, operators: Iterable[Operator]) -> None:
        """Include the state of a subscription's operators in the log."""
        self._log.hold(_query(name), operators)

    def hold_streams(self, operators: Iterable[Operator]) -> None:
        """Include the state of the event streams that relational queries read."""
        self._log.hold(_STREAMS, operators)

    def release(self, name: str) -> None:
        """Drop the state of a subscription from the log."""
        self._log.release(_query(name))

    def take_changes(self) -> tuple[list[cep_core.Entry], list[int]]:
        """Return the new log entries since the last call, and the numbers of the deleted ones."""
        return self._log.pop()

    def restore(self, entries: Iterable[cep_core.Entry]) -> None:
        """Restore the state of the same subscriptions from log entries."""
        self._log.restore(entries)

    def documents(self) -> set[int]:
        """Return the documents of all composites that operators over time still hold."""
        return {doc for composite in self._held() for doc in composite.docs}

    def instances(
        self, operators: Iterable[Operator] | None = None
    ) -> Iterator[tuple[int | None, int]]:
        """Yield (retention, event time), in ticks, of each instance of operators over time.

        The operators are the given ones, or all.  The retention is None where a row ends the
        instance.
        """
        mops = self._core.plan.mops if operators is None else {one.mop for one in operators}
        for mop in mops:
            if isinstance(mop, StateMOp):
                for row, _ in mop.kept():
                    yield mop.keeps, row[1]

    def _held(self) -> Iterator[Composite]:
        plan = self._core.plan
        rows = [row for lane in plan.lanes.values() for _, row, _ in lane.waiting()]
        for mop in plan.mops:
            if isinstance(mop, StateMOp):
                rows.extend(row for row, _ in mop.kept())
        for row in rows:
            yield from (value for value in row if isinstance(value, Composite))
