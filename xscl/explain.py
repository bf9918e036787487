"""How a query is evaluated, in words: `explain`.

Shows the join graph, its minor, the template and who shares it, the canonical
variables, the edge rule of the operator, what is kept, and on request the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cep_core import EDGE_RULES
from templates.conjunctive import filter_query, query_over_views
from templates.joingraph import LEFT, RIGHT, JoinGraph
from templates.registry import Registry, r_t
from templates.template import embedding
from templates.views import FORWARD
from xscl.compile import CompiledQuery, compile_query
from xscl.language.limits import UNITS
from xscl.match import Subscription
from xscl.store import Store
from xscl.subscriptions import Subscriptions


def explain(
    store: Store,
    registry: Registry,
    subscriptions: Subscriptions,
    query: str,
    *,
    sql: bool = False,
) -> str:
    """Return the explanation of a subscription by its name, or of the text of a query."""
    registered = subscriptions.get(query)
    if registered is None and re.fullmatch(r"[\w.'-]+", query):
        known = store.fetch("SELECT 1 FROM state.stream WHERE name = ?", [query])
        registered = None if known or query in subscriptions.streams() else subscriptions[query]
    compiled = compile_query(registered.query if registered else query)
    if sql:
        return _sql(registry, compiled)
    lines = [
        *_heading(compiled, registered),
        *_graph("join graph", compiled, compiled.graph, tuple(range(len(compiled.graph.nodes)))),
        *_graph("minor", compiled, compiled.reduced, compiled.kept),
        *_variables(compiled),
        *_sharing(registry, subscriptions, compiled, registered),
        *_time(compiled),
        *_kept(store, registry, registered),
        *_warnings(store, subscriptions, compiled),
    ]
    return "\n".join(lines)


def _heading(compiled: CompiledQuery, registered: Subscription | None) -> Iterator[str]:
    yield f"subscription {registered.name}" if registered else "query (not registered)"
    yield f"  {' '.join(compiled.source.split())}"
    yield f"reads {', '.join(compiled.streams)}"
    if compiled.normal.publish is not None:
        yield f"publishes {compiled.normal.publish}"


def _graph(
    title: str, compiled: CompiledQuery, graph: JoinGraph, numbers: tuple[int, ...]
) -> Iterator[str]:
    yield title
    for side, name in ((LEFT, "left"), (RIGHT, "right")):
        nodes = [i for i, node in enumerate(graph.nodes) if node.side == side]
        if nodes:
            yield f"  {name}"
        for number in nodes:
            indent = "  " * (_depth(graph, number) + 2)
            mark = " *" if graph.nodes[number].output else ""
            yield f"{indent}{compiled.label(numbers[number])}{mark}"
    for edge in graph.edges:
        left, right = (compiled.label(numbers[n]) for n in (edge.left, edge.right))
        yield f"  {left} {edge.operator} {right}"


def _depth(graph: JoinGraph, number: int) -> int:
    parent = graph.nodes[number].parent
    return 0 if parent is None else 1 + _depth(graph, parent)


def _variables(compiled: CompiledQuery) -> Iterator[str]:
    yield "canonical variables"
    for number, definition in zip(compiled.kept, compiled.definitions, strict=True):
        yield f"  {compiled.label(number)}: {definition}"


def _sharing(
    registry: Registry,
    subscriptions: Subscriptions,
    compiled: CompiledQuery,
    registered: Subscription | None,
) -> Iterator[str]:
    if registered is None:
        number = _known_template(registry, compiled)
        yield f"template {number}, in use" if number else "template: a new one"
        return
    joins = sum(1 for s in subscriptions.by_qid.values() if s[0].template == registered.template)
    users = sum(1 for s in subscriptions if s.template == registered.template)
    equal = registry.sharers(registered.qid)
    yield (
        f"template {registered.template}: {_counted(users, 'subscription')}"
        f" in {_counted(joins, 'distinct join')}"
    )
    shared = _counted(equal, "equal subscription")
    yield f"row {registered.qid} of R_T_{registered.template}: {shared}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _known_template(registry: Registry, compiled: CompiledQuery) -> int | None:
    minor = compiled.reduced
    for number, members in registry.members.items():
        graph = members.template.graph
        same_size = len(graph.nodes) == len(minor.nodes)
        if same_size and embedding(graph, minor, (0,) * len(minor.nodes)) is not None:
            return number
    return None


def _time(compiled: CompiledQuery) -> Iterator[str]:
    normal = compiled.normal
    if normal.operator is None:
        yield "filter: every document that the block matches, once"
        return
    yield str(EDGE_RULES[normal.operator])
    yield f"window {_duration(normal.window)}"


def _duration(ticks: int | None) -> str:
    """Return a window in the largest unit that divides it."""
    if ticks is None:
        return "INF: what is kept is never dropped"
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if ticks and ticks % length == 0:
            return f"{ticks // length} {unit}"
    return f"{ticks} ticks"


def _kept(store: Store, registry: Registry, registered: Subscription | None) -> Iterator[str]:
    if registered is None:
        return
    listed = ", ".join(str(pair) for pair in registry.row(registered.qid).pairs)
    ((rows, documents),) = store.fetch(
        f"SELECT count(*), count(DISTINCT doc) FROM state.binding WHERE pair IN ({listed})"
    )
    yield f"kept: {rows} witness rows of {documents} documents (shared with all who use them)"


def _warnings(store: Store, subscriptions: Subscriptions, compiled: CompiledQuery) -> Iterator[str]:
    for stream in compiled.streams:
        known = store.fetch(
            "SELECT 1 FROM state.stream WHERE name = ? UNION ALL"
            " SELECT 1 FROM state.document WHERE list_contains(streams, ?) LIMIT 1",
            [stream, stream],
        )
        if not known and not subscriptions.publishers(stream):
            yield f"warning: nothing has come on the stream {stream!r} yet"


def _sql(registry: Registry, compiled: CompiledQuery) -> str:
    number = _known_template(registry, compiled)
    graph = registry.members[number].template.graph if number else compiled.reduced
    table = r_t(number) if number else "R_T"
    if not graph.two_sided:
        return filter_query(graph, table, "batch_binding")
    return query_over_views(graph, table, FORWARD.views, apart=compiled.apart)
