"""The engine: streams and queries by name, events in, matches out.

    core = Engine(ticks_per_second=1)
    core.stream("Stock", {"Name": str, "Price": float})
    core.register("dear", "SELECT * FROM FILTER{Price > 83}(Stock)")
    core.push([Event("Stock", ("IBM", 90.0), 910)])     # [Match("dear", Event(...))]

`push` never raises for an event: one that does not fit its schema is in `rejected`, one that came
after its epoch was closed in `late`.  Everything else that is wrong raises a `CepError`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, groupby
from typing import Any
from weakref import WeakValueDictionary

from cep_core.air import to_xml
from cep_core.algebra import Node
from cep_core.automata import automaton
from cep_core.channels import Channel, Members, members_of, slots_of
from cep_core.errors import (
    AlgebraError,
    CepError,
    Closed,
    NameTaken,
    QueryError,
    SnapshotError,
    StreamInUse,
    UnknownQuery,
    near_miss,
)
from cep_core.events import TYPES, VALUES, Event, Late, Match, Rejected, Row, Schema
from cep_core.explain import in_words
from cep_core.expressions import FUNCTIONS, Function
from cep_core.fanout import Fanout, Found, Reader
from cep_core.languages import LANGUAGES, Prepared, prepare_node
from cep_core.mop import Operator, Wanted
from cep_core.operators.state import State
from cep_core.plan import Options, Plan
from cep_core.predicates import Shapes
from cep_core.rules import ALL_RULES, Rule
from cep_core.runtime import BEGINNING, END, Clock, Lane
from cep_core.snapshot import AttributeType, Codec, Numbering, load_state, state_of
from cep_core.steps import Reference, Step, steps_of

_REPORTED = 10_000  # late and rejected events that are kept for reading; all are counted


@dataclass(frozen=True, slots=True)
class BaseStream:
    """A stream that events are pushed to."""

    name: str
    schema: Schema
    lateness: int
    label: str | None
    operator: Operator


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Compiled:
    """All queries of one shape: what they read, and the steps to plan."""

    reads: tuple[str, ...]
    inner: tuple[str, ...]  # the names that its sub-queries publish
    steps: list[Step]
    outputs: list[Reference]  # of the inner published queries, then of the query itself
    schemas: list[Schema]


@dataclass(slots=True)
class Query:
    """A registered query."""

    name: str
    number: int  # in order of registration
    text: str | Node
    language: str
    compiled: Compiled
    literals: tuple[Any, ...]
    publishes: str | None
    since: int
    lane: Lane
    held: list[Operator] = field(default_factory=list)
    sources: list[Query] | None = None  # whose steps `held` are, if it reads published streams
    root: Operator | None = None

    @property
    def schema(self) -> Schema:
        """The schema of its output."""
        return self.compiled.schemas[-1]

    @property
    def published(self) -> list[str]:
        """The streams that it publishes, its inner ones first."""
        own = [self.publishes] if self.publishes else []
        return [*self.compiled.inner, *own]


class Engine:
    """Complex event processing for many queries at once.  Not for concurrent use by threads.

    ``ticks_per_second`` is the unit of all times; ``rules`` and ``options`` say what queries share;
    ``functions`` adds to what expressions may call; ``types`` are attribute types of your own that
    snapshots have to keep.
    """

    def __init__(
        self,
        ticks_per_second: int = 1_000_000,
        *,
        rules: Sequence[Rule] = ALL_RULES,
        options: Options | None = None,
        functions: Mapping[str, Function] | None = None,
        types: Sequence[AttributeType] = (),
    ) -> None:
        self.ticks_per_second = ticks_per_second
        self.functions = {**FUNCTIONS, **_strict(functions or {})}
        self._own_functions = sorted(functions or {})
        self._codec = Codec(types)
        self.rules = tuple(rules)
        self.options = options or Options()
        self.rejected: deque[Rejected] = deque(maxlen=_REPORTED)
        self.late: deque[Late] = deque(maxlen=_REPORTED)
        self.counts = dict.fromkeys(("events", "matches", "late", "rejected"), 0)
        self.clock = Clock()
        self.plan = Plan(
            self.rules, self.options, self.clock, Shapes(self.functions), self._report_late
        )
        self.streams: dict[str, BaseStream] = {}
        self.queries: dict[str, Query] = {}
        self.publishers: dict[str, Query] = {}
        self.recent: deque[tuple[Row, tuple[str, ...]]] = deque()  # base rows of open epochs
        self._by_number: dict[int, Query] = {}
        self._readers: dict[str, set[str]] = {}  # queries by the stream that they read
        self._compiled: WeakValueDictionary[tuple[str, str], Compiled] = WeakValueDictionary()
        self._fanouts: dict[Channel, Fanout] = {}
        self._found: list[Found] = []
        self._next_query = 0
        self._widest = 0  # the largest lateness of a stream: how long rows may be open
        self._closed = False
        self._last_late: tuple[Row, int] | None = None

    # -- streams ---------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        attributes: Mapping[str, type] | Schema,
        *,
        lateness: int = 0,
        channel: str | None = None,
    ) -> None:
        """Declare a base stream.

        Events that end up to ``lateness`` ticks before the clock still take their place in order.
        Streams with the same ``channel`` are labelled sharable (Hong 2009, section 5.3.2): an event
        may belong to several of them.
        """
        if name in self.streams or name in self.publishers:
            raise NameTaken(f"there is a stream {name} already")
        if lateness < 0:
            raise CepError(f"a lateness is at least 0 ticks, not {lateness}")
        schema = attributes if isinstance(attributes, Schema) else _schema(name, attributes)
        for other in self.streams.values():
            shared = channel and other.label == channel
            if shared and (other.schema, other.lateness) != (schema, lateness):
                raise CepError(
                    f"{name} and {other.name} cannot share the channel {channel}:"
                    " their attributes or latenesses differ"
                )
        operator = self.plan.source(name, len(schema), lateness, channel)
        self.streams[name] = BaseStream(name, schema, lateness, channel, operator)
        self._widest = max(self._widest, lateness)

    def schema(self, name: str) -> Schema | None:
        """Return the schema of a base or published stream, None if there is none."""
        if name in self.streams:
            return self.streams[name].schema
        publisher = self.publishers.get(name)
        if publisher is None:
            return None
        place = publisher.published.index(name)
        return publisher.compiled.schemas[place]

    def names(self) -> Iterator[str]:
        """Yield the names of all streams."""
        yield from self.streams
        yield from self.publishers

    # -- queries ---------------------------------------------------------------------------

    def register(
        self, name: str, query: str | Node, language: str = "cel", *, publish: str | None = None
    ) -> None:
        """Add a query; it sees the events that arrive from now on.

        ``query`` is a text of the language, or a node of `cep_core.algebra`; ``publish`` names the
        output as PUBLISH does.  Raises QueryError with line, column and caret; NameTaken.
        """
        self._require_open()
        if name in self.queries:
            raise NameTaken(f"there is a query {name} already", hint="unregister it first")
        try:
            compiled, literals, publishes = self._compile(query, language)
        except AlgebraError as error:
            raise QueryError.of(error, query if isinstance(query, str) else "") from None
        except RecursionError:
            raise CepError("the query is nested too deeply") from None
        self._add(name, query, language, compiled, literals, publish or publishes)

    def unregister(self, name: str) -> None:
        """Remove a query and all that only it needed; raises StreamInUse while others read it."""
        query = self._query(name)
        for stream in query.published:
            readers = sorted(self._readers.get(stream, set()) - {name})
            if readers:
                others = f" and {len(readers) - 1} more" if len(readers) > 1 else ""
                raise StreamInUse(
                    f"{name} publishes {stream}, which {readers[0]}{others} reads",
                    hint="unregister the readers first",
                )
        self._unplan(query)
        del self.queries[name], self._by_number[query.number]
        for stream in query.published:
            del self.publishers[stream]
            self._forget_shapes(stream)
        for stream in query.compiled.reads:
            self._readers[stream].discard(name)

    # -- events ----------------------------------------------------------------------------

    def push(self, events: Iterable[Event]) -> list[Match]:
        """Take events in, in order of arrival; return the matches that are certain now.

        They are ordered by (t1, registration, values).  A match of an ordered operator is certain
        when the clock has passed its epoch by the lateness; `advance` and `close` bring the rest.
        """
        self._require_open()
        for event in events:
            self._take(event)
        return self._matches()

    def advance(self, to: int) -> list[Match]:
        """Set the clock: epochs before it (by the lateness) are closed, timers fire."""
        self._require_open()
        if to > self.clock.now:
            self.clock.now = to
            self._close_epochs()
        return self._matches()

    def close(self) -> list[Match]:
        """End the input: all epochs are closed."""
        self._require_open()
        self._closed = True
        for lane in self.plan.lanes.values():
            lane.close(END)
        self.recent.clear()
        return self._matches()

    # -- what there is ---------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Return counts: of what came and went, and of what is kept now."""
        mops = list(self.plan.mops)
        active = sum(index.entries() for index in self.plan.active_indexes())
        return {
            **self.counts,
            "streams": len(self.streams),
            "queries": len(self.queries),
            "operators": len(self.plan.operators),
            "mops": len(mops),
            "channels": len({channel for mop in mops for channel in mop.channels()}),
            "instances": sum(mop.instances() for mop in mops),
            "index_entries": active + sum(mop.entries() for mop in mops),
            "waiting": sum(len(lane) for lane in self.plan.lanes.values()),
        }

    def explain(self, name: str) -> str:
        """Return what a query became: operators, who shares them, what indexes answer, the time."""
        query = self._query(name)
        nodes = {}
        for source in {id(one): one for one in query.sources or [query]}.values():
            nodes[source.name] = cycle(self._nodes(source)[1])
        steps = [
            (next(nodes[source.name]), source.literals, operator)
            for source, operator in zip(
                query.sources or [query] * len(query.held), query.held, strict=True
            )
        ]
        own = set(query.held)
        sharers = Counter(
            op for other in self.queries.values() for op in own.intersection(other.held)
        )
        reads = ", ".join(query.compiled.reads)
        head = f"{name} (query {query.number}, {query.language}) reads {reads}"
        output = f"{query.publishes or name}{query.schema}"
        if query.lane.lateness:
            output += f", {query.lane.lateness} ticks behind the clock"
        return in_words(head, steps, sharers, output)

    def export(self, name: str) -> str:
        """Return the automaton of a linear-plus query as an AIR document (language "air")."""
        query = self._query(name)
        view = automaton(self._nodes(query)[0])
        return to_xml(view, query.literals)

    def instances(self, name: str) -> list[list[Event]]:
        """Return the instances that wait in each state of a query, the lower states first."""
        query = self._query(name)
        states = []
        for operator in dict.fromkeys(query.held):
            if isinstance(operator.mop, State):
                rows = [
                    row
                    for row, members in operator.mop.kept()
                    if operator.slot in slots_of(members) and row[2] >= query.since
                ]
                states.append([Event(operator.mop.label, r[VALUES:], r[0], r[1]) for r in rows])
        return states

    def snapshot(self) -> bytes:
        """Return all that is needed to go on: streams, queries, and what they keep.

        Not what is only for reading: `late` and `rejected` (their counts are).
        """
        codec = self._codec
        queries = [
            [
                *(query.name, query.number, query.language, query.publishes, query.since),
                query.text if isinstance(query.text, str) else codec.node(query.text),
            ]
            for query in self._by_number.values()
        ]
        streams = [
            [one.name, codec.node(one.schema), one.lateness, one.label]
            for one in self.streams.values()
        ]
        data = {
            "ticks_per_second": self.ticks_per_second,
            "rules": [rule.name for rule in self.rules],
            "options": asdict(self.options),
            "functions": self._own_functions,
            "streams": streams,
            "queries": queries,
            "counts": self.counts,
            "clock": [self.clock.now, self.clock.arrivals, self._next_query, self._closed],
            "recent": [[codec.row(row), list(names)] for row, names in self.recent],
            "plan": state_of(self.plan, self._numbering(), codec),
        }
        return codec.packed(data)

    @classmethod
    def restore(
        cls,
        data: bytes,
        *,
        rules: Sequence[Rule] = ALL_RULES,
        functions: Mapping[str, Function] | None = None,
        types: Sequence[AttributeType] = (),
    ) -> Engine:
        """Return an engine that goes on where the snapshot was taken.

        ``rules`` has to have the rules by whose names the plan was made; ``functions`` and
        ``types`` those that it had.  Raises SnapshotError.
        """
        found = Codec(types).unpacked(data)
        missing = sorted(set(found["functions"]) - set(functions or {}))
        by_name = {rule.name: rule for rule in rules}
        missing += [name for name in found["rules"] if name not in by_name]
        if missing:
            raise SnapshotError(f"the snapshot needs {', '.join(missing)}", hint="pass them, too")
        engine = cls(
            found["ticks_per_second"],
            rules=[by_name[name] for name in found["rules"]],
            options=Options(**found["options"]),
            functions=functions,
            types=types,
        )
        engine._load(found)
        return engine

    def _load(self, found: Mapping[str, Any]) -> None:
        for name, schema, lateness, label in found["streams"]:
            self.stream(name, self._codec.made(schema), lateness=lateness, channel=label)
        self.clock.now, arrivals, next_query, closed = found["clock"]
        for name, number, language, publishes, since, text in found["queries"]:
            query = text if isinstance(text, str) else self._codec.made(text)
            self._next_query, self.clock.arrivals = number, since
            self.register(name, query, language, publish=publishes)
        self.clock.arrivals, self._next_query, self._closed = arrivals, next_query, closed
        self.counts.update(found["counts"])
        self.recent.extend((tuple(row), tuple(names)) for row, names in found["recent"])
        load_state(self.plan, self._numbering(), found["plan"])

    def _numbering(self) -> Numbering:
        return Numbering(self.plan, [query.held for query in self._by_number.values()])

    # -- inside ----------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        name = event.stream
        names = (name,) if isinstance(name, str) else name
        reason = self._fault(event, names)
        if reason is not None:
            self.counts["rejected"] += 1
            self.rejected.append(Rejected(event, reason))
            return
        clock = self.clock
        t0, t1 = event.t0, event.t0 if event.t1 is None else event.t1
        row = (t0, t1, clock.arrivals, *event.values)
        clock.arrivals += 1
        self.counts["events"] += 1
        if self._widest:
            self.recent.append((row, names))
        self._emit(row, names)
        if t1 > clock.now:
            clock.now = t1
            self._close_epochs()

    def _emit(self, row: Row, names: tuple[str, ...]) -> None:
        """Hand a base row to the plan: at once if its streams share a channel."""
        by_channel: dict[Channel, list[int]] = {}
        for name in names:
            operator = self.streams[name].operator
            by_channel.setdefault(operator.channel, []).append(operator.slot)
        for channel, slots in by_channel.items():
            members: Members = members_of(sorted(slots))
            channel.emit(row, members)

    def _fault(self, event: Event, names: tuple[str, ...]) -> str | None:
        """Return why an event cannot be taken in."""
        if not names:
            return "it names no stream"
        for name in names:
            if name not in self.streams:
                hint = near_miss(name, self.streams)
                return f"there is no stream {name}" + (f"; {hint}" if hint else "")
        first = self.streams[names[0]]
        for name in names[1:]:
            if first.label is None or self.streams[name].label != first.label:
                return f"{names[0]} and {name} are not labelled sharable"
        t1 = event.t0 if event.t1 is None else event.t1
        if type(event.t0) is not int or type(t1) is not int:
            return "its times are not integers"
        if not BEGINNING < event.t0 <= t1 < END:
            return f"its interval [{event.t0}, {t1}] is none"
        return first.schema.fault(event.values)

    def _close_epochs(self) -> None:
        now = self.clock.now
        for lane in self.plan.lanes.values():
            lane.close(now - lane.lateness)
        if self.recent:
            while self.recent and self.recent[0][0][1] < now - self._widest:
                self.recent.popleft()

    def _matches(self) -> list[Match]:
        found = self._found[:]
        self._found.clear()
        found.sort(key=_by_time)
        matches: list[Match] = []
        for _, group in groupby(found, key=_by_time):
            rows = list(group)
            if len(rows) > 1:
                rows.sort(key=lambda one: [_order(value) for value in one.row[VALUES:]])
            query = self._by_number[rows[0].number]
            stream, schema = query.publishes or query.name, query.schema
            for _, row in rows:
                event = Event(stream, row[VALUES:], row[0], row[1], schema)
                matches.append(Match(query.name, event))
        self.counts["matches"] += len(matches)
        return matches

    def _report_late(self, row: Row, watermark: int, missed: object) -> None:
        label = getattr(missed, "label", "")
        if self._last_late == (row, watermark):
            last = self.late[-1]
            if label not in last.missed:
                self.late[-1] = last._replace(missed=(*last.missed, label))
            return
        self._last_late = (row, watermark)
        self.counts["late"] += 1
        self.late.append(Late(row, watermark, (label,)))

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("the input has ended")

    def _query(self, name: str) -> Query:
        if name not in self.queries:
            raise UnknownQuery(f"there is no query {name}", hint=near_miss(name, self.queries))
        return self.queries[name]

    def _compile(
        self, query: str | Node, language: str
    ) -> tuple[Compiled, tuple[Any, ...], str | None]:
        """Return the shape of a query, its literals, and the name that it publishes."""
        if not isinstance(query, str):
            return self._compiled_of(prepare_node(query, self)), (), None
        if language not in LANGUAGES:
            raise CepError(f"there is no language {language}", hint=near_miss(language, LANGUAGES))
        front = LANGUAGES[language]
        shape, literals, publishes = front.split(query, self.ticks_per_second)
        key = (language, shape)
        compiled = self._compiled.get(key)
        if compiled is None:
            prepared = front.prepare(query, self, self.ticks_per_second, self.functions)
            compiled = self._compiled_of(prepared)
            self._compiled[key] = compiled
        return compiled, literals, publishes

    def _compiled_of(self, prepared: Prepared) -> Compiled:
        inner = [node for _, node in prepared.inner]
        steps, _, outputs = steps_of(prepared.node, inner, self.plan.shapes)
        schemas = [node.schema for node in (*inner, prepared.node)]
        names = tuple(name for name, _ in prepared.inner)
        return Compiled(prepared.reads, names, steps, outputs, schemas)

    def _nodes(self, query: Query) -> tuple[Node, list[Node]]:
        """Return a query's algebra, and the nodes of its steps; both are made anew."""
        if isinstance(query.text, str):
            front = LANGUAGES[query.language]
            arguments = (self, self.ticks_per_second, self.functions)
            prepared = front.prepare(query.text, *arguments)
        else:
            prepared = prepare_node(query.text, self)
        inner = [node for _, node in prepared.inner]
        return prepared.node, steps_of(prepared.node, inner, self.plan.shapes)[1]

    def _forget_shapes(self, stream: str) -> None:
        """Forget what was compiled against a stream that is no more."""
        for key, compiled in list(self._compiled.items()):
            if stream in compiled.reads:
                del self._compiled[key]

    def _add(
        self,
        name: str,
        text: str | Node,
        language: str,
        compiled: Compiled,
        literals: tuple[Any, ...],
        publishes: str | None,
    ) -> None:
        lane = self.plan.lane(self._lateness(compiled))
        query = Query(
            *(name, self._next_query, text, language, compiled, literals, publishes),
            *(self.clock.arrivals, lane),
        )
        for stream in query.published:
            if stream in self.streams or stream in self.publishers or stream == "":
                raise NameTaken(f"there is a stream {stream} already")
            if stream in compiled.reads:
                raise CepError(f"{name} would read the stream {stream} that it publishes")
        if any(stream in self.publishers for stream in compiled.reads):
            query.sources = []
        self._plan_query(query)
        self._next_query += 1
        self.queries[name] = query
        self._by_number[query.number] = query
        for stream in query.published:
            self.publishers[stream] = query
        for stream in compiled.reads:
            self._readers.setdefault(stream, set()).add(name)

    def _lateness(self, compiled: Compiled) -> int:
        """Return the largest lateness of the base streams that a query reads."""
        found = 0
        for name in compiled.reads:
            if name in self.streams:
                found = max(found, self.streams[name].lateness)
            else:
                found = max(found, self.publishers[name].lane.lateness)
        return found

    def _plan_query(self, query: Query) -> None:
        lane = query.lane
        lane.connected = []
        try:
            outputs = self._insert(query, query)
        except Exception:
            for operator in reversed(query.held):
                self.plan.release(operator)
            raise
        finally:
            connected, lane.connected = lane.connected, None
        root = query.root = outputs[-1]
        root.uses += 1
        fanout = self._fanouts.get(root.channel)
        if fanout is None:
            fanout = self._fanouts[root.channel] = Fanout(self.clock, self._found)
        fanout.add(root.channel, root.slot, Reader(query.number, query.since))
        if connected and lane.lateness and self.recent:
            self._replay(lane, set(connected))

    def _insert(self, query: Query, owner: Query) -> list[Operator]:
        """Plan the steps of a query; they are the owner's, which publishes what the query reads."""
        compiled, literals = owner.compiled, owner.literals
        made: list[Operator] = []
        reading: dict[str, Operator] = {}

        def resolve(reference: Reference) -> Operator:
            if isinstance(reference, int):
                return made[reference]
            if reference not in reading:
                reading[reference] = self._read(query, reference)
            return reading[reference]

        for step in compiled.steps:
            inputs = tuple([resolve(reference) for reference in step.inputs])
            bound = step.forgets or (step.ordered and any(one.joined for one in inputs))
            wanted = Wanted(
                *(step.kind, step.define(literals), inputs),
                query.lane if step.ordered else None,
                query.since if bound else None,
                None if step.window is None else step.window(literals),
                step.width,
            )
            operator = self.plan.insert(wanted)
            query.held.append(operator)
            if query.sources is not None:
                query.sources.append(owner)
            made.append(operator)
        return [resolve(reference) for reference in compiled.outputs]

    def _read(self, query: Query, name: str) -> Operator:
        """Return the operator of a stream: of a published one, planned in the query's own lane."""
        if name in self.streams:
            return self.streams[name].operator
        publisher = self.publishers[name]
        outputs = self._insert(query, publisher)
        return outputs[publisher.published.index(name)]

    def _unplan(self, query: Query) -> None:
        root = query.root
        assert root is not None
        fanout = self._fanouts[root.channel]
        fanout.remove(root.channel, root.slot, Reader(query.number, query.since))
        if not len(fanout):
            del self._fanouts[root.channel]
        self.plan.release(root)
        for operator in reversed(query.held):
            self.plan.release(operator)

    def _replay(self, lane: Lane, fresh: set[Any]) -> None:
        """Show the rows of open epochs to what a registration has connected.

        An operator that others share has seen them; a new one has to, for the same results.
        """
        self.clock.replaying = True
        for other in self.plan.lanes.values():
            other.fresh = fresh if other is lane else set()
        try:
            for row, names in self.recent:
                self._emit(row, names)
        finally:
            self.clock.replaying = False
            for other in self.plan.lanes.values():
                other.fresh = None


def _schema(name: str, attributes: Mapping[str, type]) -> Schema:
    for attribute, kind in attributes.items():
        if not isinstance(kind, type) or kind.__hash__ is None:
            raise CepError(
                f"{attribute} of {name} has the type {kind!r}, which is no hashable class",
                hint=f"types are {', '.join(t.__name__ for t in TYPES)}, or classes of your own",
            )
    return Schema(tuple(attributes), tuple(attributes.values()))


def _strict(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Return user functions that give null for a null argument."""

    def strict(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            return None if any(one is None for one in arguments) else call(*arguments)

        return called

    return {name: one._replace(call=strict(one.call)) for name, one in functions.items()}


def _by_time(found: Found) -> tuple[int, int]:
    return found.row[1], found.number


def _order(value: Any) -> tuple[Any, ...]:
    """Return a key that orders any values: null first, then by type."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return (1, value != value, value if value == value else 0)
    return (2, type(value).__name__, value if isinstance(value, str) else repr(value))
