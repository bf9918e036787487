"""Why a query matches some documents, or why not.

The documents are looked at by themselves, by navigation, and all that the query asks of them is
said, one edge after another; they match iff every edge holds.

    question      what is asked: a query, documents, when they came
    examination   the edges of the query's parts, the inner ones first
    mismatch      a pattern that fails: the longest prefix of its steps that does not
    comparisons   predicates over `choices` of nodes; `nearest` finds the nearest miss
    intervals     order and window, and whether one was still kept when the other came
    taken         what operators over time take, given all kept documents
    answer        the edges, for people and for programs
"""

from xscl.inspection.why.answer import Why, why
from xscl.inspection.why.question import NONE, Edge, Question, Read, asked

__all__ = ["NONE", "Edge", "Question", "Read", "Why", "asked", "why"]
