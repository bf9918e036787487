"""The event algebra: what a query means, independent of how it is computed.

Nodes (`nodes`) are frozen and carry their output schema; the functions of the same
names in lower case (`constructors`) make them and refuse what is not well-formed.  Formal
definitions: Hong 2009, section 3.2; the second opinion in `tests/cep_core/reference.py` computes
each operator straight from them.

=====================  ============  ==============================================================
node                   paper         result
=====================  ============  ==============================================================
Stream                 S             the events of a base stream, or of a published one
Select                 sigma         rows for which the predicate holds
Project                pi, rho, a_g  rows with computed, renamed, dropped attributes
Union                  ∪             bag union
Sequence               ;θ            each left row with the earliest later right row, given θ
Iterate                μ             repeated ;θ that keeps the first row, the last row, aggregates
GroupAggregate         α, β          one row for each row, over a window; or for each epoch
WindowJoin             ⋈             pairs at most w apart, either order
OuterJoin              -             pairs within bounds of time, and rows without a partner there
PatternMatch           SEQ, NFAb     matches of sequences and patterns, with absences and policies
=====================  ============  ==============================================================

Differs from section 3.2.2: a sequence keeps the attributes of both rows.  Where names collide the
first row's get the suffix "_1" (section 4.2.2); overwriting is a projection above it.  OuterJoin
is not part of that section; it is related to SASE's negated end and NEXT's exception
(`operators.cayuga.outer_join`).  PatternMatch has what SASE asks for (`cep_core.algebra.patterns`).
"""

from cep_core.algebra.constructors import (
    group_aggregate,
    iterate,
    outer_join,
    project,
    select,
    sequence,
    stream,
    union,
    window_join,
)
from cep_core.algebra.functions import decimal_value, operand_value
from cep_core.algebra.nodes import (
    AGGREGATES,
    Aggregate,
    Component,
    GroupAggregate,
    Iterate,
    Node,
    OuterJoin,
    Part,
    PatternMatch,
    Project,
    Role,
    Rules,
    Select,
    Sequence,
    Stream,
    Union,
    WindowJoin,
    sources_of,
    streams_of,
)
from cep_core.algebra.normal_form import (
    MOST_DISJUNCTS,
    Junction,
    NumberedAtom,
    TooManyDisjuncts,
    disjuncts,
)
from cep_core.algebra.pattern_constructors import pattern_match
from cep_core.algebra.pattern_tree import Absent, Chain, Choice, Loop, One, Unordered
from cep_core.algebra.untyped import (
    WHITE_SPACE,
    comparands,
    compared_number,
    instant_of,
    integer_of,
    number_of,
    operand_of,
    text_of,
)
from cep_core.decimals import (
    CONTEXT,
    DIGITS_BEFORE,
    BoundedDecimal,
    DecimalOrDouble,
    decimal_of,
    remainder,
)

__all__ = [
    "AGGREGATES",
    "CONTEXT",
    "DIGITS_BEFORE",
    "MOST_DISJUNCTS",
    "WHITE_SPACE",
    "Absent",
    "Aggregate",
    "BoundedDecimal",
    "Chain",
    "Choice",
    "Component",
    "DecimalOrDouble",
    "GroupAggregate",
    "Iterate",
    "Junction",
    "Loop",
    "Node",
    "NumberedAtom",
    "One",
    "OuterJoin",
    "Part",
    "PatternMatch",
    "Project",
    "Role",
    "Rules",
    "Select",
    "Sequence",
    "Stream",
    "TooManyDisjuncts",
    "Union",
    "Unordered",
    "WindowJoin",
    "comparands",
    "compared_number",
    "decimal_of",
    "decimal_value",
    "disjuncts",
    "group_aggregate",
    "instant_of",
    "integer_of",
    "iterate",
    "number_of",
    "operand_of",
    "operand_value",
    "outer_join",
    "pattern_match",
    "project",
    "remainder",
    "select",
    "sequence",
    "sources_of",
    "stream",
    "streams_of",
    "text_of",
    "union",
    "window_join",
]
