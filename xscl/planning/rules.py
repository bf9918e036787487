"""The m-rules of XSCL: which blocks and which joins share an m-op.

They stand before the core's own: a rule is a key function, and an operator
takes the first that has a key for it.
"""

from __future__ import annotations

from collections.abc import Hashable

from cep_core import ALL_RULES, Rule
from cep_core.plan import Wanted
from xscl.planning.operators.joins import JoinDefinition


def same_join(wanted: Wanted) -> Hashable | None:
    """Joins that are equal in canonical form are one row of R_T: one operator."""
    return wanted.definition if wanted.kind == "template_join" else None


def same_stream(wanted: Wanted) -> Hashable | None:
    """Blocks over the streams of one channel are scanned together, by one automaton."""
    return wanted.inputs[0].channel if wanted.kind == "xpath_scan" else None


def same_template(wanted: Wanted) -> Hashable | None:
    """Joins of one query template are one conjunctive query."""
    if isinstance(wanted.definition, JoinDefinition):
        return wanted.definition.template
    return None


RULES: tuple[Rule, ...] = (
    Rule("same_join", "joins equal in canonical form are one", same_join, same=True),
    Rule("same_stream", "blocks over one channel share an automaton", same_stream),
    Rule("same_template", "joins of one template share a query", same_template),
    *ALL_RULES,
)
