"""Sequence construction (SC): from the row that completes a sequence back through the stacks.

The depth-first search over the stacks' virtual edges is written as nested loops, one for each
component, and compiled once for each pattern (Wu, Diao and Rizvi 2006, sections 4.1 to 4.3).  The
predecessors of a row are the rows of the stack before it up to its RIP; a window excludes those
that are too old.  A condition is tested as soon as the rows that it reads are bound (*dynamic
filtering*).

In the functions ``d`` is the row that completes, ``n`` how many rows of the stack before it may
stand before it, ``p`` the stacks, ``k`` the constants, ``oldest`` the end of the window (excluded).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from cep_core.algebra import Part
from cep_core.dataflow.code import function_of
from cep_core.events import Row
from cep_core.operators.sase.pattern import Conjunct, Pattern, attribute

RowSequence: TypeAlias = tuple[Row, ...]  # a row for each component
END_OF = itemgetter(1)
Search: TypeAlias = Callable[..., list[RowSequence]]
_NESTED = 16  # loops of one function: Python nests 20 blocks at most


class Construction(NamedTuple):
    """Functions of one pattern.

    ``search`` finds the sequences in stacks that hold and lie in the window.  ``make`` turns them
    into rows.  ``every`` finds without testing; ``holds`` tests one sequence, atom by atom,
    whatever its values.  ``rows`` is `make` of `search` without intermediate sequences.
    """

    search: Search
    rows: Callable[..., list[Row]]
    every: Search
    make: Callable[[list[RowSequence]], list[Row]]
    holds: Callable[[RowSequence, Sequence[Any]], bool]


def construction(pattern: Pattern, conjuncts: Sequence[Conjunct]) -> Construction:
    """Compile a pattern with the conditions that are to be tested."""
    size = len(pattern.components)
    return Construction(
        _search(pattern, conjuncts, size),
        _search(pattern, conjuncts, size, rows=True),
        _search(pattern, (), size),
        _make(pattern, size),
        pattern.careful(conjuncts, lambda part: _source(part, "m[{}]"), "m, k"),
    )


def first_after(rows: list[Row], oldest: int) -> int:
    """Return the index of the first row that ends after `oldest`; rows are sorted by their end."""
    if not rows or rows[0][1] > oldest:
        return 0
    return bisect_right(rows, oldest, key=END_OF)


def _source(part: Part, row: str = "e{}") -> str:
    """Return source code that reads a part (attribute or time) of a component's row."""
    name = row.format(part.component)
    match part.role:
        case "start":
            return f"{name}[0]"
        case "first_end" | "end":
            return f"{name}[1]"
        case _:
            return attribute(name, part)


def _least(values: Sequence[str]) -> str:
    """Return source code of the minimum of some expressions.

    The code compares the first, which is the least in most sequences, before it calls `min`: the
    comparisons are faster than the call.
    """
    if len(values) == 1:
        return values[0]
    first, *others = values
    least = " and ".join(f"{first} <= {one}" for one in others)
    return f"({first} if {least} else min({', '.join(values)}))"


def _names(size: int) -> str:
    return "".join(f"e{c}, " for c in range(size))


def _search(
    pattern: Pattern, conjuncts: Sequence[Conjunct], size: int, rows: bool = False
) -> Callable[..., Any]:
    """Compile the search; with ``rows`` it returns rows, else sequences.

    The values of a component are read in the loop that binds it, once for all its sequences.
    Python limits nested blocks, so the loops of a long pattern continue in nested functions, which
    read the bound rows as closures.
    """
    names: dict[str, Any] = {"first_after": first_after}
    tests: list[str] = []
    for level in range(size):
        chosen = [one for one in conjuncts if min(one.components, default=size - 1) == level]
        text, used = pattern.written(chosen, _source)
        tests.append(text)
        names |= used
    last = size - 1
    lines = ["def made(d, n, p, k, oldest):", f"    e{last} = d", "    found = []"]
    if tests[last]:
        lines += [f"    if not ({tests[last]}):", "        return found"]
    for level in range(last):
        lines += [f"    s{level} = p[{level}]", f"    rows{level} = s{level}.rows"]
        lines += [f"    from{level} = first_after(rows{level}, oldest)"]
    made = _row(pattern, last) if rows else f"({_names(size)})"
    if rows:
        lines += _bound(pattern, last, last, "    ")
    if not last:
        lines.append(f"    found.append({made})")
    until, indent = "n", "    "
    calls: list[str] = []
    for level in range(last - 1, 0, -1):
        if not (last - level) % _NESTED:
            lines += [f"{indent}def from{level}_on():", f"{indent}    nonlocal found"]
            calls.append(f"{indent}from{level}_on()")
            indent += "    "
        here = f"[from{level}:{until}]"
        lines.append(
            f"{indent}for e{level}, r{level} in zip(rows{level}{here}, s{level}.rips{here}):"
        )
        indent += "    "
        if tests[level]:
            lines += [f"{indent}if not ({tests[level]}):", f"{indent}    continue"]
        if rows:
            lines += _bound(pattern, level, last, indent)
        until = f"max(r{level} - s{level - 1}.gone, 0)"
    if last:
        test = f" if {tests[0]}" if tests[0] else ""
        lines.append(f"{indent}found += [{made} for e0 in rows0[from0:{until}]{test}]")
    lines += [*reversed(calls), "    return found"]
    search: Callable[..., Any] = function_of("\n".join(lines), names)
    return search


def _bound(pattern: Pattern, level: int, last: int, indent: str) -> list[str]:
    """Return the lines that read what rows have of a component: v.. its values, f.. the arrival.

    The arrival is the least of those from this component on; the last one also tells the end.
    """
    arrival = f"e{level}[2]"
    if level == last:
        lines = ["end = d[1]", f"f{level} = {arrival}"]
    else:
        later = f"f{level + 1}"
        lines = [f"f{level} = {arrival} if {arrival} <= {later} else {later}"]
    lines += [
        f"v{place} = {_source(part)}"
        for place, part in enumerate(pattern.outputs)
        if part.component == level
    ]
    return [indent + line for line in lines]


def _row(pattern: Pattern, last: int) -> str:
    """Return the source of a row, given the first component and what `_bound` reads of others."""
    values = "".join(
        f"v{place}, " if part.component or not last else f"{_source(part)}, "
        for place, part in enumerate(pattern.outputs)
    )
    arrival = "e0[2] if e0[2] <= f1 else f1" if last else "f0"
    return f"(e0[0], end, {arrival}, {values})"


def _make(pattern: Pattern, size: int) -> Callable[[list[RowSequence]], list[Row]]:
    first = _least([f"e{c}[2]" for c in range(size)])
    values = "".join(f"{_source(part)}, " for part in pattern.outputs)
    body = (
        "def made(found):\n"
        f"    return [(e0[0], e{size - 1}[1], {first}, {values}) for {_names(size)} in found]"
    )
    make: Callable[[list[RowSequence]], list[Row]] = function_of(body, {})
    return make
