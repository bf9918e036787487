"""Why a query matches some documents, or why not.

The documents are examined by plain navigation.  The answer lists all conditions of the query on
them, one edge after another; they match iff every edge holds.

    question          the question: a query, documents, their arrival
    examination       the edges of the query's parts, the inner ones first
    mismatch          a pattern that fails: the longest prefix of its steps that does not
    comparisons       predicates over `choices` of nodes; `nearest` finds the nearest miss
    intervals         order and window, and whether the earlier one was still kept
    temporal_choice   the choices of temporal operators, given all kept documents
    answer            the edges, for people and for programs
"""

from xscl.inspection.why.answer import Why, why
from xscl.inspection.why.question import NONE, Edge, Question, Read, Visible, question_of

__all__ = ["NONE", "Edge", "Question", "Read", "Visible", "Why", "question_of", "why"]
