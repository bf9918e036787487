"""Text of `explain`: operators, join graphs, evaluators, sharing and state of a query.

Shows the operators, for each join its graph, its minor, the template and who
shares it, the canonical variables; the edge rules, what is kept, the plan, and
on request the SQL.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from cep_core import EDGE_RULES, EdgeRule, is_calendar
from cep_core.plan import Operator
from templates.model.conjunctive_query import over_batch, over_views, select
from templates.model.join_graph import EXCHANGED, INFINITE, LEFT, RIGHT, JoinGraph
from templates.processor import SMALL_BATCH
from templates.registry import UNDESIGNATED, Registry
from xscl.documents.results import XSCL, Subscription
from xscl.documents.retention import DAY
from xscl.inspection.replay import subscription_named
from xscl.language import normalform as nf
from xscl.language.calendars import calendar_words
from xscl.language.scope import shortest, walk
from xscl.language.syntax import Block, Condition, Residual, ValueTest
from xscl.language.unparse import unparse
from xscl.planning.compile import CompiledJoin, CompiledQuery, compile_query
from xscl.planning.dataflow import Dataflow
from xscl.planning.operators.events import instances
from xscl.planning.plan_graph import STREAM, TEMPLATE, PlanNode, template_name
from xscl.plurals import counted
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.automaton.structure import is_structural
from xscl.shredding.conditions.atoms import plan
from xscl.shredding.conditions.unevaluated import Tally
from xscl.store.queries.documents import count_texts_of, has_documents
from xscl.store.queries.rows import rows_of
from xscl.store.queries.witnesses import kept_witnesses
from xscl.store.store import Store
from xscl.subscriptions.streams import StreamDefinitions
from xscl.subscriptions.subscriptions import Subscriptions
from xscl.time_format import window

MOST_PAIRS = 10_000
"""Maximum number of pairs of variables whose witnesses are counted."""


def explain(
    store: Store,
    registry: Registry,
    subscriptions: Subscriptions,
    dataflow: Dataflow,
    streams: StreamDefinitions,
    query: str,
    *,
    sql: bool = False,
    seen: Callable[[str], bool] | None = None,
    reason_here: ReasonHere | None = None,
) -> str:
    """Return the explanation of a subscription by its name, or of the text of a query.

    `seen` returns True for the names of subscriptions that the reader may know of; None: all.
    Other subscriptions are not counted, and plan and state, which all share, are left out.
    With `sql` the explanation is the SQL of the joins alone.
    `reason_here` returns why the engine evaluates a row of R_T; None: there are no executors.
    """
    registered = subscription_named(store, subscriptions, query)
    refusal = None if registered is None else subscriptions.refusal(registered)
    if registered is not None and refusal is not None:
        return f"{registered.query}\nit has no matches, since this release refuses it:\n{refusal}"
    if registered is not None and registered.number in subscriptions.backfills:
        return f"{registered.query}\nits history is being read; it has no operators until then"
    if registered is not None and registered.relational:
        core = _in_the_core(dataflow.relational.operators(registered.key))
        sees = None if seen is None else lambda key: seen(subscriptions.name_of(key))
        return f"{dataflow.core.explain(registered.key, sees)}\n{core}"
    compiled = compile_query(registered.query if registered else query)
    templates = registry if seen is None else None
    if sql:
        return "\n".join(_sql(templates, join) for join in compiled.joins)
    lines = [*_heading(compiled, registered), *_calendars(dataflow, compiled)]
    for block in compiled.normal.blocks:
        lines.extend(condition_lines(block))
    for join in compiled.joins:
        lines.extend(_join(templates, join))
    if registered is not None:
        if seen is None:
            lines.extend(_sharing(registry, subscriptions, registered))
        else:
            equal = sum(seen(one.name) for one in subscriptions.by_qid[registered.qid])
            lines.append(f"shared by {counted(equal, 'equal subscription')} of yours")
        lines.extend(_stopped(dataflow, registered))
        lines.extend(unmet_lines(dataflow, registered))
        lines.extend(_one_sided(dataflow, registered))
    places = None
    if registered is not None and reason_here is not None:
        # A reason may name the subscription of somebody else.
        reason = reason_here if seen is None else lambda qid: ""
        qids = dataflow.subscribed.qids(registered)
        places = places_of(registry, compiled.joins, qids, reason)
    lines.extend(_time(templates, compiled, places))
    if registered is not None and seen is None:
        lines.extend(_kept(store, registry, dataflow, registered))
        lines.extend(_plan(dataflow, registered))
    lines.extend(_warnings(store, subscriptions, compiled))
    if (found := absence_warning(streams, compiled)) is not None:
        lines.append(f"warning: {found}")
    return "\n".join(lines)


def _heading(compiled: CompiledQuery, registered: Subscription | None) -> Iterator[str]:
    yield f"subscription {registered.name}" if registered else "query (not registered)"
    yield f"  {' '.join(compiled.source.split())}"
    yield f"reads {', '.join(compiled.streams)}"
    if compiled.normal.publish is not None:
        yield f"publishes {compiled.normal.publish}"


def _calendars(dataflow: Dataflow, compiled: CompiledQuery) -> Iterator[str]:
    """Yield each calendar in words, with its next instant if a subscription reads it."""
    for name in compiled.calendars:
        read = dataflow.core.calendars([name])
        yield read[0] if read else f"{name}: {calendar_words(name)}"


def _join(registry: Registry | None, join: CompiledJoin) -> Iterator[str]:
    yield from _graph("join graph", join, join.graph, tuple(range(len(join.graph.nodes))))
    yield from _graph("minor", join, join.reduced, join.kept)
    if join.residual is not None:
        yield f"tested on each candidate: {unparse(join.residual)}"
    if join.graph.text_joins:
        yield "an index of the texts within the window chooses the candidates"
    if join.crossed:
        yield "warning: no equality chooses candidates: every pair within the window is tested"
    if join.never:
        yield "warning: the predicate contradicts itself: nothing will ever match"
    yield from _variables(join)
    if registry is None:
        return
    number = known_template(registry, join)
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
        operator = edge.operator.removeprefix(EXCHANGED)
        one, other = (left, right) if operator == edge.operator else (right, left)
        test, *bound = operator.split(maxsplit=1)
        yield f"  {test}({one}, {other}) {bound[0]}" if bound else f"  {one} {operator} {other}"


def _depth(graph: JoinGraph, number: int) -> int:
    parent = graph.nodes[number].parent
    return 0 if parent is None else 1 + _depth(graph, parent)


def _variables(join: CompiledJoin) -> Iterator[str]:
    yield "canonical variables"
    of_blocks = [at for at in join.kept if join.sides[join.nodes[at].side].pattern is not None]
    for node, definition in zip(of_blocks, join.node_definitions, strict=True):
        yield f"  {join.label(node)}: {definition}"


def _stopped(dataflow: Dataflow, registered: Subscription) -> Iterator[str]:
    stopped = dataflow.subscribed.stopped(registered)
    if stopped is not None:
        yield (
            f"more than {stopped.results:,} results with {counted(stopped.documents, 'document')},"
            f" the latest: {stopped.latest}; none of them is kept"
        )
        if stopped.incomplete:
            yield "incomplete: operators over time took no row of these documents"


def _one_sided(dataflow: Dataflow, registered: Subscription) -> Iterator[str]:
    found = dataflow.subscribed.one_sided(registered)
    if found:
        yield (
            f"{counted(found, 'comparison')} of a number and a text did not hold since the"
            " registration or the last start"
        )


def _sharing(
    registry: Registry, subscriptions: Subscriptions, registered: Subscription
) -> Iterator[str]:
    equal = len(subscriptions.by_qid[registered.qid])
    shared = counted(equal, "equal subscription")
    if not registered.template:
        yield f"stream {registered.qid} of composites: {shared}"
        return
    joins = sum(1 for s in subscriptions.by_qid.values() if s[0].template == registered.template)
    users = sum(1 for s in subscriptions if s.template == registered.template)
    yield (
        f"template {registered.template}: {counted(users, 'subscription')}"
        f" in {counted(joins, 'distinct join')}"
    )
    yield f"row {registered.qid} of R_T_{registered.template}: {shared}"


def _time(
    registry: Registry | None, compiled: CompiledQuery, places: Sequence[JoinEvaluator] | None
) -> Iterator[str]:
    """Yield lines for each operator, inner ones first: its rule for times, window and evaluator.

    `places` are the evaluators of the joins, None without executors.
    """
    root = compiled.normal.form
    evaluated = places or [JoinEvaluator() for _ in compiled.joins]
    for part in nf.forms(root):
        match part:
            case nf.Scan(_, number) if part is root and number is not None:
                where = "automaton" if places is None else "automaton, on executors"
                told = evaluators(registry, compiled.joins, evaluated)
                yield "filter: every document that the block matches, once"
                yield f"evaluated by: stage 1 ({where}), {told}"
            case nf.Scan():
                pass  # described with the operator that reads it
            case nf.CalendarForm() if part is root:
                yield "filter: every instant"
                yield "evaluated by: core: Stream"
            case nf.CalendarForm():
                pass  # described with the operator that reads it
            case nf.JoinForm(relation=relation, joins=numbers):
                operator = relation.operator
                yield str(EdgeRule(operator.name, relation.condition, operator.meaning))
                yield f"window {window(relation.least, relation.window)}"
                own = [evaluated[number] for number in numbers]
                joins = [compiled.joins[number] for number in numbers]
                yield f"evaluated by: {evaluators(registry, joins, own)}"
                yield from reasons(own)
            case nf.NextForm() | nf.FoldForm() | nf.AbsenceForm():
                yield from _over_time(part)


def _over_time(form: nf.OverTime) -> Iterator[str]:
    match form:
        case nf.NextForm():
            yield str(EDGE_RULES["NEXT"])
            yield "evaluated by: core: Sequence"
        case nf.FoldForm():
            yield str(EDGE_RULES["LONGEST FOLD" if form.longest else "FOLD"])
            yield "evaluated by: core: Iterate"
        case nf.AbsenceForm():
            relation = form.relation
            follows, name = relation.operator.follows, relation.operator.name
            otherwise = "ELSE" if follows else f"{name} ELSE"
            rule = EDGE_RULES[otherwise if form.otherwise else f"NOT {name}"]
            yield str(rule if form.otherwise else _none_that(rule, relation.condition))
            yield f"window {window(relation.least, relation.window)}"
            yield f"evaluated by: core: {'Absence' if follows else 'OuterJoin'}"


def _none_that(rule: EdgeRule, condition: str) -> EdgeRule:
    return replace(rule, condition=f"no b with {condition}")


def _in_the_core(operators: Iterable[Operator]) -> str:
    """Return the evaluators of an event query: the m-ops of the core, the lower ones first."""
    kinds = dict.fromkeys(operator.wanted.kind.title().replace("_", "") for operator in operators)
    return f"evaluated by: core: {', '.join(kinds) or 'Stream'}"


def _kept(
    store: Store, registry: Registry, dataflow: Dataflow, registered: Subscription
) -> Iterator[str]:
    since = dataflow.core.clock.now - DAY
    kept = kept_witnesses(store, dataflow.subscribed.pairs(registered), since=since)
    what = f"{counted(kept.rows, 'witness row')} of {counted(kept.documents, 'document')}"
    yield f"kept: {what} (shared with all who use them)"
    if any(_is_endless(registry, qid) for qid in dataflow.subscribed.qids(registered)):
        yield f"  no window ends that: {kept.lately} rows came in the last day"
    operators = dataflow.subscribed.operators(registered)
    held = list(instances(dataflow.core.plan, operators))
    if held or registered.ordered:
        those = counted(len(held), "instance")
        yield f"kept: {those} of operators over time (shared with all who use them)"
    endless = [time for keeps, time in held if keeps is None]
    if endless:
        came = sum(time > since for time in endless)
        yield f"  no window ends that of {len(endless)}: {came} came in the last day"


def _is_endless(registry: Registry, qid: int) -> bool:
    """Return True for a row of R_T that joins two sides with an infinite window."""
    row = registry.row(qid)
    return registry.members[row.template].template.graph.two_sided and row.keep >= INFINITE


def _plan(dataflow: Dataflow, registered: Subscription) -> Iterator[str]:
    """Yield the operators in the plan, with how many operators their m-ops have."""
    yield "plan"
    for operator in dataflow.subscribed.operators(registered):
        mop = operator.mop
        assert mop is not None
        base = "its calendar" if mop.kind == "instants" else "documents"
        inputs = ", ".join(
            base if source.mop is None else source.mop.label for source in operator.wanted.inputs
        )
        others = counted(len(mop.operators), "operator")
        yield f"  {mop.label} of {inputs}: {others}"
    if registered.template:
        number = registered.template
        yield f"  template_join of its witnesses: one query for all rows of R_T_{number}"


def _warnings(store: Store, subscriptions: Subscriptions, compiled: CompiledQuery) -> Iterator[str]:
    for stream in compiled.streams:
        if is_calendar(stream):
            continue
        declared = any(rows_of(store, "stream", name=stream))
        known = declared or has_documents(store, [stream])
        if not known and not subscriptions.publishers(stream):
            yield f"warning: nothing has come on the stream {stream!r} yet"


def silent_streams(streams: StreamDefinitions, compiled: CompiledQuery) -> list[str]:
    """Return the streams whose absences in a query the wall clock does not report."""
    if not any(isinstance(form, nf.AbsenceForm) for form in nf.forms(compiled.normal.form)):
        return []
    return streams.not_live(compiled.streams)


def absence_warning(streams: StreamDefinitions, compiled: CompiledQuery) -> str | None:
    """Return why the wall clock does not report the absences of a query, None if it does."""
    silent = silent_streams(streams, compiled)
    if not silent:
        return None
    is_one = len(silent) == 1
    live = " and ".join(f"'xscl stream set {one} --live'" for one in silent)
    return (
        "an absence is reported only when a later document arrives:"
        f" {', '.join(map(repr, silent))} {'is' if is_one else 'are'} not live; if documents arrive"
        f" as they happen, {live} {'lets' if is_one else 'let'} a service report it by the clock"
    )


def _sql(registry: Registry | None, join: CompiledJoin) -> str:
    number = None if registry is None else known_template(registry, join)
    graph = registry.members[number].template.graph if registry and number else join.reduced
    table = f"R_T_{number}" if number else "R_T"
    if not graph.two_sided:
        return select(over_batch(graph), table)
    return select(over_views(graph), table)


# -- Evaluators: stage 2 in the engine, or executors of its process --------------------------

ReasonHere: TypeAlias = Callable[[int], str]
"""Returns why the engine evaluates a row of R_T, although there are executors."""


@dataclass(frozen=True, slots=True)
class JoinEvaluator:
    """The evaluator of a join: executors by the equality `lead`, or the engine for a `reason`."""

    lead: str = ""
    reason: str = ""


def places_of(
    registry: Registry,
    joins: Sequence[CompiledJoin],
    qids: Sequence[int],
    reason_here: ReasonHere,
) -> list[JoinEvaluator]:
    """Return the evaluator of each join, given the qids of their rows of R_T."""
    if len(joins) != len(qids):  # its query is refused
        return [JoinEvaluator() for _ in joins]
    return [
        JoinEvaluator(reason=reason_here(qid) if join.reduced.two_sided else "")
        if registry.lead(qid) == UNDESIGNATED
        else JoinEvaluator(lead=_lead(registry, join, qid))
        for join, qid in zip(joins, qids, strict=True)
    ]


def _lead(registry: Registry, join: CompiledJoin, qid: int) -> str:
    """Return the equality by which executors evaluate a row of R_T, in the join's variables."""
    row = registry.row(qid)
    graph = registry.members[row.template].template.graph
    ends = graph.value_joins[registry.lead(qid)]
    wanted = {registry.pairs.describe(row.pairs[end]).second for end in ends}
    nodes = join.node_definitions
    edge = next(
        edge for edge in join.reduced.equalities if {nodes[edge.left], nodes[edge.right]} == wanted
    )
    return " = ".join(join.label(join.kept[at]) for at in (edge.left, edge.right))


def evaluators(
    registry: Registry | None, joins: Sequence[CompiledJoin], places: Sequence[JoinEvaluator]
) -> str:
    """Return the evaluators of a filter or join in words; numbers of templates with `registry`."""
    both = list(zip(joins, places, strict=True))
    found = [
        f"executors, by the equality {place.lead}"
        f" ({', '.join(['stage 2', *_templates(registry, [join])])})"
        for join, place in both
        if place.lead
    ]
    here = [join for join, place in both if not place.lead]
    if here:
        where = ", ".join([*_templates(registry, here), f"DuckDB above {SMALL_BATCH} documents"])
        found.append(f"stage 2 ({where})")
    tested = any(join.residual is not None for join in joins)
    return f"{'; '.join(found)}{', Refine (residual test)' if tested else ''}"


def reasons(places: Iterable[JoinEvaluator]) -> Iterator[str]:
    """Yield a line for each reason why executors do not evaluate a join."""
    for reason in dict.fromkeys(place.reason for place in places if place.reason):
        yield f"  not on executors: {reason}"


def _templates(registry: Registry | None, joins: Iterable[CompiledJoin]) -> list[str]:
    numbers = [] if registry is None else [known_template(registry, join) for join in joins]
    return [f"template {number}" for number in dict.fromkeys(numbers) if number]


def known_template(registry: Registry, join: CompiledJoin) -> int | None:
    """Return the number of the template of a join; None if it is not in use."""
    found = registry.templates.find(join.reduced)
    return None if found is None else found.number


# -- Users and state of a node of the plan ---------------------------------------------------


class PlanUsers(NamedTuple):
    """The number of subscriptions that share a node, some names, and its state's size in words."""

    total: int
    names: list[str]
    keeps: str


def plan_users(
    store: Store,
    registry: Registry,
    subscriptions: Subscriptions,
    dataflow: Dataflow,
    node: PlanNode,
    most: int,
) -> PlanUsers:
    """Return the users of a node of the plan, with at most `most` names, alphabetically.

    It looks at all subscriptions: some 100 ms for 100,000 of them.
    """
    uses = _user_test(dataflow, node)
    names = [subscription.name for subscription in subscriptions if uses(subscription)]
    keeps = _keeps(store, registry, dataflow, node)
    return PlanUsers(len(names), heapq.nsmallest(most, names), keeps)


def _user_test(dataflow: Dataflow, node: PlanNode) -> Callable[[Subscription], bool]:
    """Return a function that returns True for the subscriptions that use a node."""
    subscribed = dataflow.subscribed
    if node.kind == STREAM:
        return lambda one: node.name in one.reads
    if node.kind == TEMPLATE:
        return lambda one: node.name in map(template_name, subscribed.templates(one))
    mops = {id(mop) for mop in dataflow.core.plan.mops if mop.label == node.name}
    return lambda one: any(id(operator.mop) in mops for operator in subscribed.operators(one))


def _keeps(store: Store, registry: Registry, dataflow: Dataflow, node: PlanNode) -> str:
    """Return the state that a node of the plan keeps, in words, such as `3 instances`."""
    if node.kind == STREAM:
        return counted(count_texts_of(store, node.name), "document")
    if node.kind == TEMPLATE:
        members = next(m for n, m in registry.members.items() if template_name(n) == node.name)
        pairs = list({pair for column in members.columns for pair in column})
        if len(pairs) > MOST_PAIRS:
            return f"the witnesses of {len(pairs):,} pairs of variables"
        kept = kept_witnesses(store, pairs, since=INFINITE)
        return f"{counted(kept.rows, 'witness row')} of {counted(kept.documents, 'document')}"
    for mop in dataflow.core.plan.mops:
        if mop.label == node.name:
            entries = mop.entries()
            more = f", {entries:,} index entries" if entries else ""
            return f"{counted(mop.instances(), 'instance')}{more}"
    return "nothing"


# -- The evaluation of a block's conditions --------------------------------------------------

# `shared`: by the automaton, with all patterns.  `indexed`: by an index, without a test of each.
# `narrowed`: by a test of the nodes that an index has left.
# `tested`: by a test of each node that the rest of the pattern has left.
# `residual`: by XPath on these nodes, once for each expression and node.

EvaluatedAt: TypeAlias = Literal["shared", "indexed", "narrowed", "tested", "residual"]


class SplitCondition(NamedTuple):
    """A condition, the kind of its evaluation, a remark on it, and a hint at a faster condition."""

    text: str
    where: EvaluatedAt
    how: str = ""
    hint: str = ""


def placed(block: Block) -> Iterator[SplitCondition]:
    """Yield the conditions of a block, with their evaluation, in the order of its pattern nodes."""
    for node in pattern(block).nodes:
        for condition in node.step.conditions:
            yield _placed(shortest(condition))


def _placed(condition: Condition) -> SplitCondition:
    text = unparse(condition)
    if is_structural(condition):
        return SplitCondition(text, "shared")
    residuals = [node for node in walk(condition) if isinstance(node, Residual)]
    lookups = plan((condition,))
    if residuals:
        where = "where the names that it needs exist" if lookups else ""
        return SplitCondition(text, "residual", where, _hint(residuals[0]))
    if not lookups:
        return SplitCondition(text, "tested")
    proved = any(lookup.proves for lookup in lookups)
    kinds = dict.fromkeys(atom.question.kind for lookup in lookups for atom in lookup.atoms)
    return SplitCondition(text, "indexed" if proved else "narrowed", ", ".join(kinds))


def _hint(residual: Residual) -> str:
    if residual.selects:
        return "a path of names and // alone is shared; write other axes as conditions"
    return "a path, perhaps in functions, compared with a constant would be indexed"


def expressions(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the expressions that may be unevaluated: residual conditions, functions of values."""
    for node in walk(tuple(blocks)):
        if isinstance(node, Residual):
            yield node.text
        elif isinstance(node, ValueTest) and node.through is not None:
            yield unparse(node.through.operand)


def condition_lines(block: Block) -> Iterator[str]:
    """Yield a heading, and a line for each condition of a block; nothing without conditions."""
    conditions = list(placed(block))
    if conditions:
        yield f"conditions of {block.stream}"
    for one in conditions:
        how = f" ({one.how})" if one.how else ""
        hint = f"; {one.hint}" if one.hint and one.where != "indexed" else ""
        yield f"  [{one.text}]: {one.where}{how}{hint}"


# -- Conditions that could not be evaluated, and so did not hold -----------------------------


def unmet(dataflow: Dataflow, subscription: Subscription) -> list[Tally]:
    """Return the expressions of a subscription that were not evaluated in some documents."""
    tallies = dataflow.automaton.unevaluated
    if not len(tallies) or subscription.language != XSCL:
        return []
    return tallies.of(_expressions(subscription.query))


@lru_cache(maxsize=1_000)
def _expressions(query: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expressions(compile_query(query).normal.blocks)))


def unmet_lines(dataflow: Dataflow, subscription: Subscription) -> Iterator[str]:
    """Yield a line of `explain` for each expression that was not evaluated in some documents.

    Then yield one for each expression that compared a number with a text.
    """
    for one in unmet(dataflow, subscription):
        yield (
            f"not evaluated in {counted(one.documents, 'document')}, the latest: {one.latest}:"
            f" [{one.expression}]: {one.reason}; it does not hold there"
        )
    tallies = dataflow.automaton.one_sided
    for one in tallies.of(_expressions(subscription.query)) if len(tallies) else ():
        yield (
            f"compares a number with a text in {counted(one.documents, 'document')},"
            f" the latest: {one.latest}: [{one.expression}]; such a comparison does not hold"
        )
