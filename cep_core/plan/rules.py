"""The m-rules: which operators share an m-op (Hong 2009, Table 5.1).

A rule is a key function.  On insertion the rules are tried in order; the first key that is not
None decides, and the operator joins the m-op that has this key.  Nothing is searched and nothing is
planned again, so adding a query costs the same with a hundred thousand present.  Without a rule its
operators share nothing: "Cayuga", "no FR-index", "no channels" are tuples of rules, not code paths.
Another package adds rules to the tuple, and its m-ops' constructors as builders of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from cep_core.dataflow.mop import Wanted
from cep_core.operators.pattern import matching


class Rule(NamedTuple):
    """A rule of sharing: operators for which ``key`` returns the same value share an m-op.

    With ``same`` they are even one operator.  For None the rule does not apply.
    """

    name: str
    key: Callable[[Wanted], Hashable | None]
    same: bool = False


def merge_expressions(wanted: Wanted) -> Hashable | None:
    """Return a key of the operator and its inputs: equal ones are one operator.

    So queries with equal beginnings share them (s_;, s_μ: prefix merging).
    """
    return wanted


def index_predicates(wanted: Wanted) -> Hashable | None:
    """Return the sharing key of a selection, None for other kinds.

    Selections that read one channel share a predicate index (s_σ; the FR-index).
    """
    if wanted.kind == "select":
        return ("select", wanted.inputs[0].channel)
    return None


def share_aggregates(wanted: Wanted) -> Hashable | None:
    """Return the sharing key of an aggregate, None for other kinds.

    Aggregates over one channel take its rows in together (s_α).
    """
    if wanted.kind == "group_aggregate":
        return ("aggregate", wanted.inputs[0].channel, wanted.lane, wanted.since)
    return None


def share_joins(wanted: Wanted) -> Hashable | None:
    """Return the key of a join, None for other operators: joins of one predicate share rows (s_⋈).

    Their windows may differ.  If the rows of an input are not single events, the windows have to
    be equal, too: the bound of results is counted for each window.
    """
    if wanted.kind == "window_join":
        left, right = wanted.inputs
        window = None if left.simple and right.simple else wanted.window
        return ("join", left.channel, right.channel, wanted.definition, window)
    return None


def share_scans(wanted: Wanted) -> Hashable | None:
    """Return the sharing key of a pattern, None for other kinds.

    Patterns of one shape over the same channels share their stacks or runs (s_SSC, c_SEQ).
    """
    return matching.sharing_key(wanted) if wanted.kind == "pattern_match" else None


def share_channels(wanted: Wanted) -> Hashable | None:
    """Return a key that equal definitions over streams of one channel have in common, or None.

    They share an m-op (c_σ c_π c_α c_⋈ c_; c_μ).  Streams are in one channel if they are sharable
    and one m-op produces them (section 5.3.2).
    """
    first = wanted.inputs[0].channel
    match wanted.kind:
        case "sequence" | "iterate" | "absence":
            return (wanted._replace(inputs=wanted.inputs[1:]), first)
        case "window_join":
            return (wanted._replace(inputs=()), first, wanted.inputs[1].channel)
        case "union" | "pattern_match" | "outer_join":
            return None
        case _:
            return (wanted._replace(inputs=()), first)


ALL_RULES: tuple[Rule, ...] = (
    Rule("common_subexpressions", merge_expressions, same=True),
    Rule("index_predicates", index_predicates),
    Rule("share_aggregates", share_aggregates),
    Rule("share_joins", share_joins),
    Rule("share_scans", share_scans),
    Rule("share_channels", share_channels),
)
