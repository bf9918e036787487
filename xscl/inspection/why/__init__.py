"""Why a query matches some documents, or why not.

The documents are examined by plain navigation.  The answer lists all conditions of the query on
them, one edge after another; they match iff every edge holds.

    question      the question: a query, documents, their arrival
    examination   the edges of the query's parts, the inner ones first, and the answer
                  (order, window, retention, the choices of temporal operators)
    mismatch      a pattern that fails: the longest prefix of its steps that does not
    values        choices of nodes, predicates over them, and the nearest miss
"""

from xscl.inspection.reasons import NONE, Edge, Why
from xscl.inspection.why.examination import why
from xscl.inspection.why.question import TextReader, Visible, WhyQuestion, question_of

__all__ = ["NONE", "Edge", "TextReader", "Visible", "Why", "WhyQuestion", "question_of", "why"]
