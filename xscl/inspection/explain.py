"""Text of `explain`: operators, join graphs, evaluators, sharing and state of a query.

Shows the operators, for each join its graph, its minor, the template and who
shares it, the canonical variables; the edge rules, what is kept, the plan, and
on request the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

from cep_core import EDGE_RULES
from cep_core.plan import Operator
from templates.model.conjunctive_query import over_batch, over_views
from templates.model.join_graph import LEFT, RIGHT, JoinGraph
from templates.model.relations import INFINITE
from templates.model.template import embedding
from templates.processor import SMALL_BATCH
from templates.registry.registry import Registry, r_t
from templates.sql.conjunctive import select
from xscl.documents.results import Subscription
from xscl.documents.retention import DAY
from xscl.language.normalform import Absent, Folded, Following
from xscl.language.unparse import unparse
from xscl.planning.compile import (
    CompiledJoin,
    CompiledQuery,
    JoinedParts,
    Part,
    Timed,
    Witnessed,
    compile_query,
)
from xscl.planning.dataflow import Dataflow
from xscl.store.store import Store
from xscl.subscriptions.subscriptions import Subscriptions
from xscl.time_format import duration


def explain(
    store: Store,
    registry: Registry,
    subscriptions: Subscriptions,
    dataflow: Dataflow,
    query: str,
    *,
    sql: bool = False,
    seen: Callable[[str], bool] | None = None,
) -> str:
    """Return the explanation of a subscription by its name, or of the text of a query.

    `seen` says which subscriptions, by name, whoever asks may know of: the others are not counted,
    and what is kept and planned for all is left out.
    """
    registered = subscriptions.get(query)
    if registered is None and re.fullmatch(r"[\w.'-]+", query):
        known = store.fetch("SELECT 1 FROM state.stream WHERE name = ?", [query])
        registered = None if known or query in subscriptions.streams() else subscriptions[query]
    if registered is not None and registered.relational:
        core = _in_the_core(dataflow.relational.operators(registered.name))
        return f"{dataflow.relational.explain(registered.name, seen)}\n{core}"
    compiled = compile_query(registered.query if registered else query)
    if sql:
        templates = registry if seen is None else None
        return "\n".join(_sql(templates, join) for join in _joins(compiled.root))
    if seen is not None:
        lines = [
            *_heading(compiled, registered),
            *(line for join in _joins(compiled.root) for line in _join(None, join)),
            *_equal(subscriptions, registered, seen),
            *_stopped(dataflow, registered),
            *_time(None, compiled.root),
            *_warnings(store, subscriptions, compiled),
        ]
        return "\n".join(lines)
    lines = [
        *_heading(compiled, registered),
        *(line for join in _joins(compiled.root) for line in _join(registry, join)),
        *_sharing(registry, subscriptions, registered),
        *_stopped(dataflow, registered),
        *_time(registry, compiled.root),
        *_kept(store, registry, dataflow, registered),
        *_plan(dataflow, registered),
        *_warnings(store, subscriptions, compiled),
    ]
    return "\n".join(lines)


def _joins(part: Part | int) -> Iterator[CompiledJoin]:
    """Yield the join graphs of a query, the inner ones first."""
    match part:
        case int():
            return
        case Witnessed(_, join):
            yield join
        case JoinedParts(left, right, disjuncts):
            yield from _joins(left)
            yield from _joins(right)
            yield from disjuncts
        case Timed(_, left, right):
            yield from _joins(left)
            yield from _joins(right)
        case _:
            assert_never(part)


def _heading(compiled: CompiledQuery, registered: Subscription | None) -> Iterator[str]:
    yield f"subscription {registered.name}" if registered else "query (not registered)"
    yield f"  {' '.join(compiled.source.split())}"
    yield f"reads {', '.join(compiled.streams)}"
    if compiled.normal.publish is not None:
        yield f"publishes {compiled.normal.publish}"


def _join(registry: Registry | None, join: CompiledJoin) -> Iterator[str]:
    yield from _graph("join graph", join, join.graph, tuple(range(len(join.graph.nodes))))
    yield from _graph("minor", join, join.reduced, join.kept)
    if join.residual is not None:
        yield f"tested on each candidate: {unparse(join.residual)}"
    if join.crossed:
        yield "warning: no equality chooses candidates: every pair within the window is tested"
    if join.never:
        yield "warning: the predicate contradicts itself: nothing will ever match"
    yield from _variables(join)
    if registry is None:
        return
    number = _known_template(registry, join)
    yield f"template {number}, in use" if number else "template: a new one"


def _graph(
    title: str, join: CompiledJoin, graph: JoinGraph, numbers: tuple[int, ...]
) -> Iterator[str]:
    yield title
    for side, name in ((LEFT, "left"), (RIGHT, "right")):
        nodes = [i for i, node in enumerate(graph.nodes) if node.side == side]
        if nodes:
            yield f"  {name}"
        for number in nodes:
            indent = "  " * (_depth(graph, number) + 2)
            mark = " *" if graph.nodes[number].output else ""
            yield f"{indent}{join.label(numbers[number])}{mark}"
    for edge in graph.edges:
        left, right = (join.label(numbers[n]) for n in (edge.left, edge.right))
        yield f"  {left} {edge.operator} {right}"


def _depth(graph: JoinGraph, number: int) -> int:
    parent = graph.nodes[number].parent
    return 0 if parent is None else 1 + _depth(graph, parent)


def _variables(join: CompiledJoin) -> Iterator[str]:
    yield "canonical variables"
    for side, each in enumerate(join.sides):
        kept = sorted(n for where, n in map(join.place, join.kept) if where == side)
        if each.pattern is not None:
            definitions = join.block_definitions(side)
            for number, definition in zip(kept, definitions, strict=True):
                yield f"  {each.label(number)}: {definition}"


def _stopped(dataflow: Dataflow, registered: Subscription | None) -> Iterator[str]:
    stopped = None if registered is None else dataflow.subscribed.stopped(registered)
    if stopped is not None:
        documents = "1 document" if stopped.documents == 1 else f"{stopped.documents} documents"
        yield (
            f"stopped at {stopped.results:,} results of {documents}, the latest: {stopped.latest};"
            " those with the newest partners stay"
        )
        if stopped.incomplete:
            yield "incomplete: operators over time took no row of these documents"


def _sharing(
    registry: Registry, subscriptions: Subscriptions, registered: Subscription | None
) -> Iterator[str]:
    if registered is None:
        return
    equal = len(subscriptions.by_qid[registered.qid])
    shared = _counted(equal, "equal subscription")
    if not registered.template:
        yield f"stream {registered.qid} of composites: {shared}"
        return
    joins = sum(1 for s in subscriptions.by_qid.values() if s[0].template == registered.template)
    users = sum(1 for s in subscriptions if s.template == registered.template)
    yield (
        f"template {registered.template}: {_counted(users, 'subscription')}"
        f" in {_counted(joins, 'distinct join')}"
    )
    yield f"row {registered.qid} of R_T_{registered.template}: {shared}"


def _equal(
    subscriptions: Subscriptions, registered: Subscription | None, seen: Callable[[str], bool]
) -> Iterator[str]:
    """Yield how many subscriptions that may be known of share all their work with this one."""
    if registered is not None:
        equal = sum(seen(one.name) for one in subscriptions.by_qid[registered.qid])
        yield f"shared by {_counted(equal, 'equal subscription')} of yours"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _known_template(registry: Registry, join: CompiledJoin) -> int | None:
    minor = join.reduced
    for number, members in registry.members.items():
        graph = members.template.graph
        same_size = len(graph.nodes) == len(minor.nodes)
        if same_size and embedding(graph, minor, (0,) * len(minor.nodes)) is not None:
            return number
    return None


def _time(registry: Registry | None, part: Part | int) -> Iterator[str]:
    """Yield the edge rule, the window and the evaluator of each operator, the inner ones first."""
    match part:
        case int():
            return
        case Witnessed(_, join):
            yield "filter: every document that the block matches, once"
            yield f"evaluated by: stage 1 (automaton), {_stage_2(registry, (join,))}"
        case JoinedParts(left, right, disjuncts):
            yield from _inner(registry, left, right)
            yield str(EDGE_RULES[disjuncts[0].operator or ""])
            yield f"window {duration(disjuncts[0].window)}"
            yield f"evaluated by: {_stage_2(registry, disjuncts)}"
        case Timed(form, left, right):
            yield from _inner(registry, left, right)
            match form:
                case Following():
                    yield str(EDGE_RULES["NEXT"])
                    yield "evaluated by: core: Sequence"
                case Folded():
                    yield str(EDGE_RULES["FOLD"])
                    yield "evaluated by: core: Iterate"
                case Absent(window=window, otherwise=otherwise):
                    yield str(EDGE_RULES["ELSE" if otherwise else "NOT FOLLOWED BY"])
                    yield f"window {duration(window)}"
                    yield "evaluated by: core: Absence"
                case _:
                    assert_never(form)
        case _:
            assert_never(part)


def _inner(registry: Registry | None, *parts: Part | int) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, int | Witnessed):
            yield from _time(registry, part)


def _stage_2(registry: Registry | None, joins: Sequence[CompiledJoin]) -> str:
    """Return the evaluator of a filter or join; template numbers only if all may be seen."""
    numbers = [] if registry is None else [_known_template(registry, join) for join in joins]
    templates = [f"template {number}" for number in dict.fromkeys(numbers) if number]
    where = ", ".join([*templates, f"DuckDB above {SMALL_BATCH} documents"])
    tested = any(join.residual is not None for join in joins)
    return f"stage 2 ({where}){', Refine (residual test)' if tested else ''}"


def _in_the_core(operators: Iterable[Operator]) -> str:
    """Return the evaluators of an event query: the m-ops of the core, the lower ones first."""
    kinds = dict.fromkeys(one.wanted.kind.title().replace("_", "") for one in operators)
    return f"evaluated by: core: {', '.join(kinds)}"


def _kept(
    store: Store, registry: Registry, dataflow: Dataflow, registered: Subscription | None
) -> Iterator[str]:
    if registered is None:
        return
    listed = ", ".join(str(pair) for pair in dataflow.subscribed.pairs(registered))
    since = dataflow.core.clock.now - DAY
    ((rows, documents, lately),) = store.fetch(
        "SELECT count(*), count(DISTINCT doc), count(*) FILTER (ts > ?)"
        " FROM state.binding JOIN state.times USING (doc)"
        f" WHERE pair IN ({listed})",
        [since],
    )
    yield f"kept: {rows} witness rows of {documents} documents (shared with all who use them)"
    if any(_is_endless(registry, qid) for qid in dataflow.subscribed.qids(registered)):
        yield f"  no window ends that: {lately} rows came in the last day"
    instances = list(dataflow.state.instances(dataflow.subscribed.operators(registered)))
    if instances or registered.ordered:
        counted = _counted(len(instances), "instance")
        yield f"kept: {counted} of operators over time (shared with all who use them)"
    endless = [time for keeps, time in instances if keeps is None]
    if endless:
        came = sum(time > since for time in endless)
        yield f"  no window ends that of {len(endless)}: {came} came in the last day"


def _is_endless(registry: Registry, qid: int) -> bool:
    """Return whether the window of a two-sided join is infinite."""
    row = registry.row(qid)
    return registry.members[row.template].template.graph.two_sided and row.keep >= INFINITE


def _plan(dataflow: Dataflow, registered: Subscription | None) -> Iterator[str]:
    """Yield the operators in the plan, with how many operators their m-ops have."""
    if registered is None:
        return
    yield "plan"
    for operator in dataflow.subscribed.operators(registered):
        mop = operator.mop
        assert mop is not None
        inputs = ", ".join(
            "documents" if source.mop is None else source.mop.label
            for source in operator.wanted.inputs
        )
        others = _counted(len(mop.operators), "operator")
        yield f"  {mop.label} of {inputs}: {others}"
    if registered.template:
        number = registered.template
        yield f"  template_join of its witnesses: one query for all rows of R_T_{number}"


def _warnings(store: Store, subscriptions: Subscriptions, compiled: CompiledQuery) -> Iterator[str]:
    for stream in compiled.streams:
        known = store.fetch(
            "SELECT 1 FROM state.stream WHERE name = ? UNION ALL"
            " SELECT 1 FROM state.document WHERE list_contains(streams, ?) LIMIT 1",
            [stream, stream],
        )
        if not known and not subscriptions.publishers(stream):
            yield f"warning: nothing has come on the stream {stream!r} yet"


def _sql(registry: Registry | None, join: CompiledJoin) -> str:
    number = None if registry is None else _known_template(registry, join)
    graph = registry.members[number].template.graph if registry and number else join.reduced
    table = r_t(number) if number else "R_T"
    if not graph.two_sided:
        return select(over_batch(graph), table)
    return select(over_views(graph, several=join.apart), table)
