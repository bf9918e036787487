"""Sequence construction (SC): from the row that completes a sequence back through the stacks.

The depth-first search over the stacks' virtual edges is one comprehension with a loop for each
component, compiled once for each pattern (Wu, Diao and Rizvi 2006, sections 4.1 to 4.3).  The
predecessors of a row are the rows of the stack before it up to its RIP; a window excludes those
that are too old.  A condition is tested as soon as the rows that it reads are bound (*dynamic
filtering*).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, TypeAlias

from cep_core.dataflow.code import function_of
from cep_core.events import Row
from cep_core.operators.pattern.conditions import MatchShape
from cep_core.operators.pattern.partitions import KeyConjunct

END_OF = itemgetter(1)
Search: TypeAlias = Callable[..., list[Any]]


@lru_cache(256)  # of m-ops of one shape, and of rows for which a condition fails
def search_of(shape: MatchShape, conjuncts: tuple[KeyConjunct, ...], alike: bool) -> Search:
    """Compile the search for the sequences that satisfy some conditions.

    In the function ``d`` is the row that completes, ``w`` the queries that select it, ``n`` how
    many rows of the stack before it may stand before it, ``p`` the stacks, ``k`` the constants,
    ``oldest`` the end of the window (excluded), ``t`` what each row takes one of that is tried for
    some query: the search ends where there are no more.  If all queries are ``alike`` it returns
    rows, otherwise pairs of the queries that select all rows of a sequence, and these rows.
    """
    last = len(shape.components) - 1
    writer = shape.writer(partial(shape.source, cells="e{}"))
    tests: list[str] = []
    for level in range(last + 1):
        chosen = [
            conjunct for conjunct in conjuncts if min(conjunct.components, default=last) == level
        ]
        tests.append(" and ".join([writer.condition(one.node) for one in chosen]))
    cells = "".join(f"e{c}, " for c in range(last + 1))
    outputs = [shape.source(part, cells="e{}") for part in shape.parts[: shape.outputs]]
    values = "".join(f"{output}, " for output in outputs)
    made = f"(e0[0], d[1], {_first_arrival(last)}, {values})" if alike else f"(w0, ({cells}))"
    lines = ["def made(d, n, p, k, oldest, w, t):", f"    e{last}, w{last} = d, w"]
    if tests[last]:
        lines += [f"    if not ({tests[last]}):", "        return []"]
    loops, until = "", "n"
    for level in range(last - 1, -1, -1):
        lines += [f"    s{level} = p[{level}]", f"    rows{level} = s{level}.rows"]
        lines += [f"    from{level} = first_after(rows{level}, oldest)"]
        here = f"[from{level}:{until}]"
        items, lists, asked = [f"e{level}"], [f"rows{level}{here}"], [tests[level]]
        if level:
            items.append(f"r{level}")
            lists.append(f"s{level}.rips{here}")
        if not alike:
            items.append(f"q{level}")
            lists.append(f"s{level}.masks{here}")
            asked[:0] = [f"(w{level} := w{level + 1} & q{level})", "next(t, False)"]
        else:
            items.insert(0, "_")
            lists.insert(0, "t")
        test = " and ".join(filter(None, asked))
        loops += f" for {', '.join(items)} in zip({', '.join(lists)}){' if ' * bool(test)}{test}"
        until = f"max(r{level} - s{level - 1}.gone, 0)"
    lines.append(f"    return [{made}{loops}]")
    search: Search = function_of("\n".join(lines), writer.names | {"first_after": first_after})
    return search


def first_after(rows: list[Row], oldest: int) -> int:
    """Return the index of the first row that ends after `oldest`; rows are sorted by their end."""
    if not rows or rows[0][1] > oldest:
        return 0
    return bisect_right(rows, oldest, key=END_OF)


def _first_arrival(last: int) -> str:
    """Return source code of the least arrival of the rows of a sequence.

    The code compares the first, which is the least in most sequences, before it calls `min`: the
    comparisons are faster than the call.
    """
    first, *others = [f"e{component}[2]" for component in range(last + 1)]
    if not others:
        return first
    least = " and ".join(f"{first} <= {other}" for other in others)
    return f"({first} if {least} else min({first}, {', '.join(others)}))"
