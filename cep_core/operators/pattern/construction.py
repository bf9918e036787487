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

from cep_core.algebra.patterns import Conjunct
from cep_core.dataflow.code import function_of
from cep_core.events import Row
from cep_core.operators.pattern.conditions import MatchShape

END_OF = itemgetter(1)
Search: TypeAlias = Callable[..., tuple[list[Any], int]]


@lru_cache(256)  # called again for m-ops of one shape, and for each row that needs `careful`
def search_of(
    shape: MatchShape, conjuncts: tuple[Conjunct, ...], alike: bool, careful: bool = False
) -> Search:
    """Compile the search for the sequences that satisfy some conditions.

    In the function ``d`` is the row that completes sequences, ``w`` the mask of the queries that
    select it, ``n`` the number of rows of the last stack that may precede it.  ``p`` has the
    stacks, ``k`` the constants.  Rows have to end after ``oldest``; ``left`` rows may be tried.
    It returns the sequences, and the number of rows left to try: below 0 sequences are missing.
    If all queries are ``alike`` a sequence is its result row, otherwise (mask of the queries that
    select all its rows, these rows).  In a ``careful`` search a condition that fails is false.
    """
    last = len(shape.components) - 1
    writer = shape.writer(partial(shape.source, cells="e{}"))
    names: dict[str, Any] = {"first_after": first_after}
    tests: list[list[str]] = [[] for _ in shape.components]
    for number, conjunct in enumerate(conjuncts):
        level = min(conjunct.components, default=last)
        if careful:
            (condition,) = shape.on_whole((conjunct,))
            names[f"holds{number}"] = condition.holds
            bound = "".join(f"e{c}, " for c in range(level, last + 1))
            tests[level].append(f"holds{number}(({'None, ' * level}{bound}), None, k)")
        else:
            tests[level].append(writer.condition(conjunct.node))
    cells = "".join(f"e{c}, " for c in range(last + 1))
    outputs = [shape.source(part, cells="e{}") for part in shape.parts[: shape.outputs]]
    values = "".join(f"{output}, " for output in outputs)
    made = f"(e0[0], d[1], {_first_arrival(last)}, {values})" if alike else f"(w0, ({cells}))"
    lines = ["def made(d, n, p, k, oldest, w, left):", f"    e{last}, w{last} = d, w"]
    if tests[last]:
        lines += [f"    if not ({' and '.join(tests[last])}):", "        return [], left"]
    for level in range(last):
        lines += [f"    s{level} = p[{level}]"]
        lines += [f"    rows{level}, gone{level} = s{level}.rows, s{level}.gone"]
        lines += [f"    from{level} = first_after(rows{level}, oldest)"]
    if last:  # all rows that may precede one are counted at once, before any is tried
        lines += [f"    until{last - 1} = n if n > from{last - 1} else from{last - 1}"]
        lines += [f"    left -= until{last - 1} - from{last - 1}"]
        lines += ["    if left < 0:", "        return [], left"]
    loops = ""
    for level in range(last - 1, -1, -1):
        here, below = f"[from{level}:until{level}]", level - 1
        items, lists, asked = [f"e{level}"], [f"rows{level}{here}"], list(tests[level])
        if level:
            items.append(f"r{level}")
            lists.append(f"s{level}.rips{here}")
            until = f"r{level} - gone{below}"
            until = f"(until{below} := {until} if {until} > from{below} else from{below})"
            asked.append(f"(left := left + from{below} - {until}) >= 0")
        if not alike:
            items.append(f"q{level}")
            lists.append(f"s{level}.masks{here}")
            asked.insert(0, f"(w{level} := w{level + 1} & q{level})")
        rows = lists[0] if len(lists) == 1 else f"zip({', '.join(lists)})"
        loops += f" for {', '.join(items)} in {rows}{' if ' * bool(asked)}{' and '.join(asked)}"
    lines.append(f"    return [{made}{loops}], left")
    search: Search = function_of("\n".join(lines), writer.names | names)
    return search


def first_after(rows: list[Row], oldest: int) -> int:
    """Return the index of the first row that ends after `oldest`; rows are sorted by their end."""
    if not rows or rows[0][1] > oldest:
        return 0
    return bisect_right(rows, oldest, key=END_OF)


def _first_arrival(last: int) -> str:
    """Return source code of the least arrival of the rows of components 0 to ``last``.

    The code compares the first, which is the least in most sequences, before it calls `min`: the
    comparisons are faster than the call.
    """
    first, *others = [f"e{component}[2]" for component in range(last + 1)]
    if not others:
        return first
    least = " and ".join(f"{first} <= {other}" for other in others)
    return f"({first} if {least} else min({first}, {', '.join(others)}))"
