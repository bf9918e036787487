"""The queries: compiled once for each shape, planned, published to one another, removed.

A query is planned in its *lane*: that of the largest lateness of the streams that it reads.  A
published stream is its publisher's expression, planned again in the reader's lane and from the
reader's registration; where neither makes a difference the plan finds the same operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any
from weakref import WeakValueDictionary

from cep_core.algebra import Node, sources_of
from cep_core.algebra.expressions import Functions, Parameter, walk
from cep_core.algebra.nodes import expressions_of
from cep_core.algebra.wellformed import well_formed
from cep_core.dataflow.channels import Channel
from cep_core.dataflow.clock import Lane
from cep_core.dataflow.mop import Operator
from cep_core.decimals import BoundedDecimal
from cep_core.errors import (
    AlgebraError,
    CepError,
    NameTaken,
    QueryError,
    StreamInUse,
    UnknownQuery,
    near_miss,
)
from cep_core.events import CALENDAR_SCHEMA, Schema, is_calendar, shown
from cep_core.languages import LANGUAGES, AlgebraQuery, prepare_node, require_name
from cep_core.plan.fanout import Fanout, FoundRow, QueryReader
from cep_core.plan.plan import Plan
from cep_core.plan.predicate_pushdown import push_down
from cep_core.plan.steps import PlanStep, Reference, steps_of, wanted
from cep_core.rewrite.rewriting import rewritten
from cep_core.runtime.streams import EngineStreams

MOST_LEVELS = 100  # of published streams that are read above one another


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CompiledShape:
    """The compiled form of all queries of a shape: the streams that they read, and their steps."""

    reads: tuple[str, ...]
    inner: tuple[str, ...]  # the names that its sub-queries publish
    steps: list[PlanStep]
    outputs: list[Reference]  # of the inner published queries, then of the query itself
    schemas: list[Schema]
    doubles: frozenset[int]  # the numbers of literals in decimal form that are doubles

    def typed(self, literals: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the literals of a query; those with a number in `doubles` become floats."""
        return tuple(
            float(value) if number in self.doubles else value
            for number, value in enumerate(literals)
        )

    def published(self, publishes: str | None) -> list[str]:
        """Return the names of the streams that a query publishes, those of its inner queries first.

        ``publishes`` is the name for its own results, None without one.
        """
        return [*self.inner, *([publishes] if publishes else [])]


@dataclass(slots=True)
class RegisteredQuery:
    """A registered query: its text, its shape and literals, and its operators in the plan.

    It sees the rows that arrived from number ``since`` on.  ``publishes`` is the stream of its
    output.
    """

    name: str
    number: int  # in order of registration
    text: str | Node
    language: str
    compiled: CompiledShape
    literals: tuple[Any, ...]
    publishes: str | None
    since: int
    lane: Lane
    held: list[Operator] = field(default_factory=list)
    sources: list[RegisteredQuery] | None = (
        None  # for each of `held` the query that has its step; None: this one has all
    )
    root: Operator | None = None
    # names of the published streams that it reads, by operator
    names: dict[Operator, str] = field(default_factory=dict)
    level: int = 0  # number of published streams, above one another, that it is made from
    bound_to: int | None = None  # see `wanted`

    @property
    def schema(self) -> Schema:
        """The schema of the query's output."""
        return self.compiled.schemas[-1]

    @property
    def published(self) -> list[str]:
        """The streams that it publishes, its inner ones first."""
        return self.compiled.published(self.publishes)


class RegisteredQueries:
    """The queries that an engine has registered, and the streams that they publish."""

    def __init__(
        self,
        plan: Plan,
        streams: EngineStreams,
        functions: Functions,
        ticks_per_second: int,
        *,
        exact: bool = False,
    ) -> None:
        self._exact = exact
        self.by_name: dict[str, RegisteredQuery] = {}
        self.by_number: dict[int, RegisteredQuery] = {}
        self.publishers: dict[str, RegisteredQuery] = {}
        self.found: list[FoundRow] = []  # rows of outputs that nobody has fetched
        self.next_number = 0
        self._plan = plan
        self._streams = streams
        self._functions = functions
        self._ticks_per_second = ticks_per_second
        self._readers: dict[str, set[str]] = {}  # by stream: names of the queries that read it
        # by language and shape
        self._compiled: WeakValueDictionary[tuple[str, str], CompiledShape] = WeakValueDictionary()
        self._fanouts: dict[Channel, Fanout] = {}

    # -- names -----------------------------------------------------------------------------

    def schema(self, name: str) -> Schema | None:
        """Return the schema of a base or published stream, None if there is none."""
        if name in self._streams.by_name:
            return self._streams.by_name[name].schema
        publisher = self.publishers.get(name)
        if publisher is None:
            return CALENDAR_SCHEMA if is_calendar(name) else None
        return publisher.compiled.schemas[publisher.published.index(name)]

    def names(self) -> Iterator[str]:
        """Yield the names of all streams."""
        yield from self._streams.by_name
        yield from self.publishers

    def query(self, name: str) -> RegisteredQuery:
        """Return a query by name; raises UnknownQuery."""
        if not isinstance(name, str) or name not in self.by_name:
            hint = near_miss(str(name), self.by_name)
            raise UnknownQuery(f"there is no query {name}", hint=hint)
        return self.by_name[name]

    # -- adding and removing ---------------------------------------------------------------

    def register(self, name: str, text: str | Node, language: str, publish: str | None) -> None:
        """Plan a query and add it under a name.

        ``text`` may be a node of the algebra.  ``publish`` names the stream of the output; None: as
        the text says, if it does.
        """
        if not isinstance(name, str):
            raise CepError(f"the name of a query is a str, not {shown(name)}")
        if publish is not None:
            require_name(publish, "the name of a stream")
        if name in self.by_name:
            raise NameTaken(f"there is a query {name} already", hint="unregister it first")
        try:
            if not isinstance(text, str):
                text = well_formed(text, self._functions)
            compiled, literals, publishes = self._compile(text, language)
            self._add(name, text, language, compiled, literals, publish or publishes)
        except AlgebraError as error:
            if not isinstance(text, str):
                raise
            raise QueryError.of(error, text) from None
        except RecursionError:
            fault = AlgebraError("the query is nested too deeply")
            raise QueryError.of(fault, text) if isinstance(text, str) else fault from None

    def unregister(self, name: str) -> None:
        """Remove a query and all that only it needed."""
        query = self.query(name)
        for stream in query.published:
            readers = sorted(self._readers.get(stream, set()) - {name})
            if readers:
                others = f" and {len(readers) - 1} more" if len(readers) > 1 else ""
                raise StreamInUse(
                    f"{name} publishes {stream}, which {readers[0]}{others} reads",
                    hint="unregister the readers first",
                )
        self._unplan(query)
        self.found[:] = [one for one in self.found if one[1] != query.number]
        del self.by_name[name], self.by_number[query.number]
        for stream in query.published:
            del self.publishers[stream]
            self._forget_shapes(stream)
        for stream in query.compiled.reads:
            self._readers[stream].discard(name)
            if not self._readers[stream]:
                del self._readers[stream]
                if is_calendar(stream):
                    self._streams.leave_calendar(stream)

    def forget_stream(self, name: str) -> None:
        """Forget what was compiled for a base stream; raises StreamInUse while a query reads it."""
        readers = sorted(self._readers.get(name, ()))
        if readers:
            raise StreamInUse(f"{readers[0]} reads the stream {name}")
        self._forget_shapes(name)

    def _forget_shapes(self, stream: str) -> None:
        """Forget the shapes of queries that read a stream."""
        for key, compiled in list(self._compiled.items()):
            if stream in compiled.reads:
                self._compiled.pop(key, None)

    # -- algebra and operators of a query --------------------------------------------------

    def algebra(self, query: RegisteredQuery) -> tuple[Node, list[Node]]:
        """Return a query's algebra, and the nodes of its steps; both are made anew."""
        prepared = self._prepare(query.text, query.language)
        inner = list(prepared.inner.values())
        return prepared.node, steps_of(self._pushed(prepared), inner, self._plan.shapes)[1]

    def steps(self, query: RegisteredQuery) -> list[tuple[Node, tuple[Any, ...], Operator]]:
        """Return (node, literals, operator) for each operator of a query, the lower ones first."""
        sources = query.sources or [query] * len(query.held)
        nodes = {
            source.name: cycle(self.algebra(source)[1])
            for source in {id(one): one for one in sources}.values()
        }
        return [
            (next(nodes[source.name]), source.literals, operator)
            for source, operator in zip(sources, query.held, strict=True)
        ]

    def sharers(
        self, query: RegisteredQuery, seen: Callable[[str], bool] | None = None
    ) -> Counter[Operator]:
        """Count, for each operator of a query, the queries (``seen`` by name) that share it."""
        own = set(query.held)
        others = [one for one in self.by_name.values() if seen is None or seen(one.name)]
        return Counter(op for other in others for op in own.intersection(other.held))

    # -- from texts to operators ------------------------------------------------------------

    def _prepare(self, text: str | Node, language: str) -> AlgebraQuery:
        """Return a query, which is text in ``language`` or a node, as checked algebra."""
        if not isinstance(text, str):
            return prepare_node(text, self)
        front = LANGUAGES[language]
        return front.prepare(text, self, self._ticks_per_second, self._functions)

    def _compile(
        self, query: str | Node, language: str
    ) -> tuple[CompiledShape, tuple[Any, ...], str | None]:
        """Return the shape of a query, its literals, and the name that it publishes."""
        if not isinstance(language, str) or language not in LANGUAGES:
            hint = near_miss(str(language), LANGUAGES)
            raise CepError(f"there is no language {language}", hint=hint)
        if not isinstance(query, str):
            return self._compiled_of(self._prepare(query, language)), (), None
        front = LANGUAGES[language]
        shape, literals, publishes = front.split(query, self._ticks_per_second)
        key = (language, shape)
        compiled = self._compiled.get(key)
        if compiled is None:
            prepared = self._prepare(query, language)
            compiled = self._compiled[key] = self._compiled_of(prepared, literals)
        typed = compiled.typed(literals) if compiled.doubles else literals
        return compiled, typed, publishes

    def _compiled_of(self, prepared: AlgebraQuery, literals: tuple[Any, ...] = ()) -> CompiledShape:
        inner = list(prepared.inner.values())
        nodes = [*inner, prepared.node]
        steps, _, outputs = steps_of(self._pushed(prepared), inner, self._plan.shapes)
        schemas = [node.schema for node in nodes]
        decimals = BoundedDecimal in map(type, literals)
        doubles = frozenset(_doubles(nodes) if decimals else ())
        return CompiledShape(prepared.reads, (*prepared.inner,), steps, outputs, schemas, doubles)

    def _pushed(self, prepared: AlgebraQuery) -> Node:
        """Return a query's algebra after rewriting by the rates of streams.

        Predicates are pushed down into the patterns in it.  With inner queries it stays as it is.
        """
        if prepared.inner:
            return prepared.node
        rates = self._streams.rates if self._plan.options.rewriting else {}
        return push_down(rewritten(prepared.node, rates))

    def _add(
        self,
        name: str,
        text: str | Node,
        language: str,
        compiled: CompiledShape,
        literals: tuple[Any, ...],
        publishes: str | None,
    ) -> None:
        published = compiled.published(publishes)
        for place, stream in enumerate(published):
            if stream in self._streams.by_name or stream in self.publishers:
                raise NameTaken(f"there is a stream {stream} already")
            if stream in published[:place]:
                raise NameTaken(f"{name} would publish {stream} twice")
            if stream in compiled.reads:
                raise CepError(f"{name} would read the stream {stream} that it publishes")
        read = [self.publishers[one] for one in compiled.reads if one in self.publishers]
        level = 1 + max((one.level for one in read), default=-1)
        if level > MOST_LEVELS:
            raise AlgebraError(
                f"{name} reads {MOST_LEVELS} published streams above one another,"
                " which is more than can be planned"
            )
        fresh = [one for one in compiled.reads if is_calendar(one) and one not in self._readers]
        held: list[str] = []
        try:
            for stream in fresh:
                self._streams.read_calendar(stream)
                held.append(stream)
            query = RegisteredQuery(
                *(name, self.next_number, text, language, compiled, literals, publishes),
                *(self._plan.clock.arrivals, self._plan.lane(self._lateness(compiled))),
                sources=[] if read else None,
                level=level,
                bound_to=self._plan.clock.bound_to,
            )
            self._plan_query(query)
        except Exception:
            for stream in held:
                self._streams.leave_calendar(stream)
            raise
        self.next_number += 1
        self.by_name[name] = query
        self.by_number[query.number] = query
        for stream in query.published:
            self.publishers[stream] = query
        for stream in compiled.reads:
            self._readers.setdefault(stream, set()).add(name)

    def _lateness(self, compiled: CompiledShape) -> int:
        """Return the largest lateness, in ticks, of the base streams that a query reads."""
        found = 0
        for name in compiled.reads:
            if name in self._streams.by_name:
                found = max(found, self._streams.by_name[name].lateness)
            else:
                found = max(found, self.publishers[name].lane.lateness)
        return found

    def _plan_query(self, query: RegisteredQuery) -> None:
        lane = query.lane
        lane.uses += 1
        lane.connected = []
        try:
            outputs = self._insert(query, query, {})
        except Exception:
            for operator in reversed(query.held):
                self._plan.release(operator)
            self._plan.leave(lane)
            raise
        finally:
            connected, lane.connected = lane.connected, None
        root = query.root = outputs[-1]
        root.uses += 1
        fanout = self._fanouts.get(root.channel)
        if fanout is None:
            fanout = self._fanouts[root.channel] = Fanout(self._plan.clock, self.found)
        fanout.add(root.channel, root.slot, QueryReader(query.number, query.since))
        if connected and lane.lateness and self._streams.recent:
            self._replay(lane, set(connected))

    def _insert(
        self, query: RegisteredQuery, owner: RegisteredQuery, read: dict[str, list[Operator]]
    ) -> list[Operator]:
        """Plan the steps of an owner for a query, and return the outputs.

        The owner is the query itself, or publishes a stream that it reads.  ``read`` has the
        outputs of the publishers that this registration has planned, by name.
        """
        compiled, literals = owner.compiled, owner.literals
        made: list[Operator] = []
        reading: dict[str, Operator] = {}

        def resolve(reference: Reference) -> Operator:
            if isinstance(reference, int):
                return made[reference]
            if reference not in reading:
                reading[reference] = self._read(query, reference, read)
            return reading[reference]

        for step in compiled.steps:
            inputs = tuple([resolve(reference) for reference in step.inputs])
            asked = wanted(
                *(step, literals, inputs, query.lane, query.since),
                exact=self._exact,
                bound_to=query.bound_to,
            )
            operator = self._plan.insert(asked)
            query.held.append(operator)
            if query.sources is not None:
                query.sources.append(owner)
            made.append(operator)
        return [resolve(reference) for reference in compiled.outputs]

    def _read(self, query: RegisteredQuery, name: str, read: dict[str, list[Operator]]) -> Operator:
        """Return the operator of a stream; a published one is planned in the query's own lane.

        ``read`` is that of `_insert`.
        """
        if name in self._streams.by_name:
            return self._streams.by_name[name].operator
        publisher = self.publishers[name]
        if publisher.name not in read:
            read[publisher.name] = self._insert(query, publisher, read)
        operator = read[publisher.name][publisher.published.index(name)]
        if operator.mop is not None:
            query.names[operator] = name
        return operator

    def _unplan(self, query: RegisteredQuery) -> None:
        root = query.root
        assert root is not None
        fanout = self._fanouts[root.channel]
        fanout.remove(root.channel, root.slot, QueryReader(query.number, query.since))
        if not len(fanout):
            del self._fanouts[root.channel]
        self._plan.release(root)
        for operator in reversed(query.held):
            self._plan.release(operator)
        self._plan.leave(query.lane)

    def _replay(self, lane: Lane, fresh: set[Any]) -> None:
        """Emit the rows of open epochs again, to the (port, slot) of ``lane`` in ``fresh`` only.

        A registration has connected these.  Shared operators have received the rows; to find the
        same results, the others have to as well.
        """
        self._plan.clock.replaying = True
        for other in self._plan.lanes.values():
            other.fresh = fresh if other is lane else set()
        try:
            for row, names in self._streams.recent:
                self._streams.emit(row, names)
        finally:
            self._plan.clock.replaying = False
            for other in self._plan.lanes.values():
                other.fresh = None


def _doubles(nodes: Iterable[Node]) -> Iterator[int]:
    """Yield the numbers of the literals that are doubles in some nodes and all below them."""
    pending = [*nodes]
    while pending:
        node = pending.pop()
        pending += sources_of(node)
        for expression in expressions_of(node):
            yield from (
                one.index
                for one in walk(expression)
                if isinstance(one, Parameter) and one.kind is float
            )
