"""Conditions of a subscription that could not be evaluated, and so did not hold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from xscl.documents.results import XSCL, Subscription
from xscl.inspection.condition_split import expressions
from xscl.planning.compile import compile_query
from xscl.planning.dataflow import Dataflow
from xscl.plurals import counted
from xscl.shredding.conditions.unevaluated import Tally


def unmet(dataflow: Dataflow, subscription: Subscription) -> list[Tally]:
    """Return the expressions of a subscription that were not evaluated in some documents."""
    tallies = dataflow.automaton.unevaluated
    if not len(tallies) or subscription.language != XSCL:
        return []
    return tallies.of(_expressions(subscription.query))


@lru_cache(maxsize=1_000)
def _expressions(query: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expressions(compile_query(query).normal.blocks)))


def lines(dataflow: Dataflow, subscription: Subscription) -> Iterator[str]:
    """Yield a line for each expression, for `explain`."""
    for one in unmet(dataflow, subscription):
        yield (
            f"not evaluated in {counted(one.documents, 'document')}, the latest: {one.latest}:"
            f" [{one.expression}]: {one.reason}; it does not hold there"
        )
    tallies = dataflow.automaton.one_sided
    for one in tallies.of(_expressions(subscription.query)) if len(tallies) else ():
        yield (
            f"compares a number with a text in {counted(one.documents, 'document')},"
            f" the latest: {one.latest}: [{one.expression}]; such a comparison does not hold"
        )
