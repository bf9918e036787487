"""The engine: streams and queries by name, events in, matches out.

    core = Engine(ticks_per_second=1)
    core.stream("Stock", {"Name": str, "Price": float})
    core.register("high", "SELECT * FROM FILTER{Price > 83}(Stock)")
    core.push([Event("Stock", ("IBM", 90.0), 910)])     # [Match("high", Event(...))]

`push` never raises for an event: one that does not fit its schema is in `rejected`, one that came
after its epoch was closed in `late`.  Every other fault raises a `CepError`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cep_core.algebra import Node
from cep_core.algebra.expressions import FUNCTIONS, Function
from cep_core.algebra.text import duration_in_words
from cep_core.dataflow.clock import END, Clock
from cep_core.dataflow.journal import Journal
from cep_core.dataflow.mop import Operator
from cep_core.dataflow.options import Options
from cep_core.dataflow.predicates import PredicateShapes
from cep_core.decimals import BoundedDecimal
from cep_core.errors import CepError, Closed, NameTaken, SnapshotError
from cep_core.events import Event, Late, Match, Rejected, Row, Schema, is_calendar, shown
from cep_core.languages import require_name
from cep_core.plan.fanout import FoundRow
from cep_core.plan.plan import Builder, Plan
from cep_core.plan.rules import ALL_RULES, Rule
from cep_core.runtime.delivery import matches
from cep_core.runtime.intake import EventIntake
from cep_core.runtime.queries import RegisteredQueries, RegisteredQuery
from cep_core.runtime.streams import EngineStreams
from cep_core.state.snapshot import AttributeType, Codec
from cep_core.state.state_log import StateLog, StateReader, StateWriter
from cep_core.views.air import from_xml, to_xml
from cep_core.views.explain import in_words

_REPORTED = 10_000  # late and rejected events that are kept for reading; all are counted


class Engine:
    """Complex event processing for many queries at once.  Not for concurrent use by threads.

    ``ticks_per_second`` is the unit of all times.  ``rules`` and ``options`` decide what queries
    share.  ``functions`` are callable in expressions, beside the built-in ones.  ``types`` are
    attribute types of your own, which snapshots serialise.  ``builders`` make m-ops of further
    kinds.  ``exact`` is for rows that arrive in another order than that of time: it limits what is
    shared, see `plan.steps.wanted`.
    """

    def __init__(
        self,
        ticks_per_second: int = 1_000_000,
        *,
        rules: Sequence[Rule] = ALL_RULES,
        options: Options | None = None,
        functions: Mapping[str, Function] | None = None,
        types: Sequence[AttributeType] = (),
        builders: Mapping[str, Builder] | None = None,
        exact: bool = False,
    ) -> None:
        if type(ticks_per_second) is not int or ticks_per_second < 1:
            raise CepError(f"there is at least 1 tick per second, not {shown(ticks_per_second)}")
        self.ticks_per_second = ticks_per_second
        self.functions = {**FUNCTIONS, **_strict(functions or {})}
        self._own_functions = sorted(functions or {})
        self.codec = Codec(types)
        self.rules = tuple(rules)
        self.options = options or Options()
        self.exact = exact
        self.rejected: deque[Rejected] = deque(maxlen=_REPORTED)
        self.late: deque[Late] = deque(maxlen=_REPORTED)
        self.counts = dict.fromkeys(("events", "matches", "late", "rejected"), 0)
        self.clock = Clock()
        self.plan = Plan(
            *(
                self.rules,
                self.options,
                self.clock,
                PredicateShapes(self.functions),
                self._report_late,
            ),
            builders,
        )
        self._streams = EngineStreams(self.plan, ticks_per_second)
        self._queries = RegisteredQueries(
            self.plan, self._streams, self.functions, ticks_per_second, exact=exact
        )
        self._intake = EventIntake(self._streams, self.plan, self.counts, self.rejected)
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
        rate: float | None = None,
    ) -> None:
        """Declare a base stream.

        Events that end up to ``lateness`` ticks before the clock still take their place in order.
        Streams with the same ``channel`` are labelled sharable (Hong 2009, section 5.3.2): an event
        may belong to several of them.  ``rate`` is how many events come in a second: patterns of
        EQL over streams with rates are rewritten.
        """
        require_name(name, "the name of a stream")
        if self._queries.schema(name) is not None:
            raise NameTaken(f"there is a stream {name} already")
        self._streams.declare(name, attributes, lateness, channel, rate)

    def adopt(self, name: str, schema: Schema, lateness: int, operator: Operator) -> None:
        """Declare a stream of rows that an operator of the plan emits, so that queries can read it.

        ``lateness`` is in ticks.  The caller holds a use of the operator (`Plan.insert`) until
        `disown`.  An engine with an adopted stream cannot make a snapshot.
        """
        if self._queries.schema(name) is not None:
            raise NameTaken(f"there is a stream {name} already")
        self._streams.adopt(name, schema, lateness, operator)

    def disown(self, name: str) -> None:
        """Forget an adopted stream; raises StreamInUse while a query reads it."""
        self._queries.forget_stream(name)
        del self._streams.by_name[name]

    # -- queries ---------------------------------------------------------------------------

    def register(
        self, name: str, query: str | Node, language: str = "cel", *, publish: str | None = None
    ) -> None:
        """Add a query; it sees the events that arrive from now on.

        ``query`` is a text of the language, or a node of `cep_core.algebra`; ``publish`` names the
        output as PUBLISH does.  Raises QueryError with line, column and caret; NameTaken.
        """
        self._require_open()
        self._queries.register(name, query, language, publish)

    def unregister(self, name: str) -> None:
        """Remove a query and all that only it needed; raises StreamInUse while others read it."""
        self._queries.unregister(name)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries, in order of registration."""
        return tuple(self._queries.by_name)

    def query(self, name: str) -> RegisteredQuery:
        """Return a query; raises UnknownQuery."""
        return self._queries.query(name)

    # -- events ----------------------------------------------------------------------------

    def push(self, events: Iterable[Event]) -> list[Match]:
        """Consume events in order of arrival; return the matches that are certain now.

        They are ordered by (t1, registration, values, t0).  A match of an ordered operator is
        certain when the clock has passed its epoch by the lateness; `advance` and `close` bring
        the rest.
        """
        self.take(events)
        return self._matches()

    def take(self, events: Iterable[Event]) -> None:
        """Consume events as `push` does; `rows` returns the results, at less cost than matches."""
        self._require_open()
        self._intake.consume(events)

    def advance(self, to: int) -> list[Match]:
        """Raise the clock to a time in ticks, as an event does; return the matches certain now."""
        self._require_open()
        if type(to) is not int or to >= END:
            raise CepError(f"the clock is set to an int below 2**62, not to {shown(to)}")
        self.raise_clock(to)
        return self._matches()

    def raise_clock(self, to: int) -> None:
        """Raise the clock as `advance` does; `rows` returns the results."""
        if to > self.clock.now:
            self.pass_instants(to)
            self.clock.now = to
            self._intake.close_epochs()
            self._streams.forget(to)

    def pass_instants(self, to: int, arrival: int | None = None) -> None:
        """Emit the instants of calendars before a time, to which the clock is about to be set.

        ``arrival`` is the arrival number of each of them; None: they are numbered as events are.
        """
        self._streams.pass_instants(to, arrival)

    def next_instant(self, calendars: frozenset[str] | None = None) -> int:
        """Return the time up to which the clock passes no instant of some calendars; None: all."""
        return self._streams.instants.next(calendars)

    def read_calendar(self, name: str) -> Operator:
        """Return the operator of a calendar; an m-op may read its rows until `leave_calendar`."""
        return self._streams.read_calendar(name)

    def leave_calendar(self, name: str) -> None:
        """Undo one `read_calendar`, after the operators that read the calendar are released."""
        self._streams.leave_calendar(name)

    def begin_instants(self, time: int) -> None:
        """Set the time from which instants of all calendars occur, whatever the clock."""
        self._streams.instants.begin(time)

    def calendars(self, names: Iterable[str]) -> list[str]:
        """Return a line of text for each of the named streams that is a calendar and is read."""
        return self._streams.calendars(names)

    def rows(self) -> list[tuple[str, Row]]:
        """Pop the rows found since the last call, unordered, as (name of the query, row)."""
        by_number = self._queries.by_number
        found = self._fetched()
        return [(by_number[number].name, row) for _, number, row in found]

    def close(self) -> list[Match]:
        """End the input, which closes all epochs; return the remaining matches."""
        self._require_open()
        for lane in self.plan.lanes.values():
            lane.close(END)
        self._closed = True
        self._streams.recent.clear()
        return self._matches()

    # -- figures, explanations, snapshots --------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Return counts by name: of all events and matches so far, and of the parts of the plan."""
        mops = list(self.plan.mops)
        active = sum(index.entries() for index in self.plan.active_indexes())
        return {
            **self.counts,
            "streams": len(self._streams.by_name),
            "queries": len(self._queries.by_name),
            "operators": len(self.plan.operators),
            "mops": len(mops),
            "channels": len({channel for mop in mops for channel in mop.channels()}),
            "instances": sum(mop.instances() for mop in mops),
            "index_entries": active + sum(mop.entries() for mop in mops),
            "waiting": sum(len(lane) for lane in self.plan.lanes.values()),
        }

    def explain(self, name: str, seen: Callable[[str], bool] | None = None) -> str:
        """Describe the plan of a query: operators, who shares them, indexes, rules of time.

        ``seen`` returns True for the name of a query that the reader may know of; None: of all.
        The text says nothing of the others.
        """
        query = self._queries.query(name)
        reads = ", ".join(query.compiled.reads)
        number = f"query {query.number}, " if seen is None else ""
        head = f"{name} ({number}{query.language}) reads {reads}"
        calendars = self._streams.calendars(query.compiled.reads)
        head = "\n  ".join([head, *calendars])
        output = f"{query.publishes or name}{query.schema}"
        if query.lane.lateness:
            lateness = duration_in_words(query.lane.lateness, self.ticks_per_second)
            output += f", {lateness} behind the clock"
        return in_words(
            head,
            self._queries.steps(query),
            self._queries.sharers(query, seen),
            output,
            query.names,
            self.ticks_per_second,
            alone=seen is not None,
        )

    def import_air(self, name: str, text: str) -> None:
        """Register the query of an AIR document (`export`); raises AlgebraError, NameTaken."""
        self.register(name, from_xml(text, self.functions))

    def export(self, name: str) -> str:
        """Return the automaton of a linear-plus query as an AIR document, see `import_air`."""
        query = self._queries.query(name)
        return to_xml(self._queries.algebra(query)[0], query.literals)

    @property
    def rates(self) -> dict[str, float]:
        """The declared rates of base streams: events in a second."""
        return dict(self._streams.rates)

    def snapshot(self) -> bytes:
        """Return the state for `restore`: streams, queries, clock, and what operators keep.

        It has the counts of late and rejected events, but not `late` and `rejected` themselves.
        """
        codec = self.codec
        adopted = self._streams.adopted()
        if adopted:
            raise SnapshotError(f"a snapshot cannot have the adopted streams {', '.join(adopted)}")
        queries = [
            [
                *(query.name, query.number, query.language, query.publishes, query.since),
                query.text if isinstance(query.text, str) else codec.node(query.text),
            ]
            for query in self._queries.by_number.values()
        ]
        streams = [
            [one.name, codec.node(one.schema), one.lateness, one.label]
            for one in self._streams.by_name.values()
        ]
        held = {query.name: query.held for query in self._queries.by_number.values()}
        every = dict.fromkeys(operator for operators in held.values() for operator in operators)
        numbers = {operator: number for number, operator in enumerate(every, 1)}
        data = {
            "ticks_per_second": self.ticks_per_second,
            "rules": [rule.name for rule in self.rules],
            "options": asdict(self.options),
            "exact": self.exact,
            "functions": self._own_functions,
            "streams": streams,
            "queries": queries,
            "counts": self.counts,
            "rates": self._streams.rates,
            "clock": [self.clock.now, self.clock.arrivals, self._queries.next_number, self._closed],
            "recent": [[codec.row(row), list(names)] for row, names in self._streams.recent],
            "entries": [*StateWriter(self.plan, codec, numbers.__getitem__).entries(held)],
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
        builders: Mapping[str, Builder] | None = None,
    ) -> Engine:
        """Return an engine that goes on where the snapshot was taken.

        ``rules`` has to contain all rules of the engine that made the snapshot; ``functions``,
        ``types`` and ``builders`` are those of that engine.  Raises SnapshotError.
        """
        found = Codec(types).unpacked(data)
        try:
            missing = sorted(set(found["functions"]) - set(functions or {}))
            by_name = {rule.name: rule for rule in rules}
            missing += [name for name in found["rules"] if name not in by_name]
            if missing:
                raise SnapshotError(
                    f"the snapshot needs {', '.join(missing)}", hint="pass them, too"
                )
            engine = cls(
                found["ticks_per_second"],
                rules=[by_name[name] for name in found["rules"]],
                options=Options(**found["options"]),
                functions=functions,
                types=types,
                builders=builders,
                exact=found["exact"],
            )
            engine._load(found)
        except SnapshotError:
            raise
        except Exception as error:  # the bytes are a snapshot's, but not as this release writes it
            reason = f"{type(error).__name__}: {error}"
            raise SnapshotError(f"the snapshot cannot be read: {reason}") from error
        return engine

    def _load(self, found: Mapping[str, Any]) -> None:
        calendars = [name for name, *_ in found["streams"] if is_calendar(name)]
        for name, schema, lateness, label in found["streams"]:
            if name not in calendars:
                made, rate = self.codec.made(schema), found["rates"].get(name)
                self.stream(name, made, lateness=lateness, channel=label, rate=rate)
        self.clock.now, arrivals, next_query, closed = found["clock"]
        for name in calendars:
            self._streams.read_calendar(name)
        self._streams.recent.clear()
        for name, number, language, publishes, since, text in found["queries"]:
            query = text if isinstance(text, str) else self.codec.made(text)
            self._queries.next_number, self.clock.arrivals = number, since
            self._queries.register(name, query, language, publishes)
        for name in calendars:
            self._streams.leave_calendar(name)
        self.clock.arrivals, self._queries.next_number, self._closed = arrivals, next_query, closed
        self.counts.update(found["counts"])
        self._streams.recent.extend((tuple(row), tuple(names)) for row, names in found["recent"])
        held = {query.name: query.held for query in self._queries.by_number.values()}
        StateReader(self.plan, held).read(found["entries"])

    def keep_log(self) -> StateLog:
        """Return the log of the state that the plan keeps; call this before any declaration.

        `StateLog.hold` registers the operators that entries may name.  The entries that
        `StateLog.pop` returns are to be written; `StateLog.restore` of an engine with the same
        queries reads them back.  A `snapshot` is for engines without a log.
        """
        journal = self.plan.journal = Journal()
        return StateLog(self.plan, journal, self.codec)

    # -- inside ----------------------------------------------------------------------------

    def _matches(self) -> list[Match]:
        return matches(self._fetched(), self._queries.by_number)

    def _fetched(self) -> list[FoundRow]:
        """Pop the rows found since the last call, and count them."""
        found = self._queries.found[:]
        self._queries.found.clear()
        self.counts["matches"] += len(found)
        return found

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


def _strict(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Wrap user functions: a null argument gives null, a result of another type a TypeError."""

    def strict(function: Function) -> Callable[..., Any]:
        call, kind = function.call, function.result
        kinds = (int, float, BoundedDecimal) if kind is float else kind

        def called(*arguments: Any) -> Any:
            if any(argument is None for argument in arguments):
                return None
            result = call(*arguments)
            if result is not None and not isinstance(result, kinds):
                raise TypeError(f"{kind.__name__} was promised, not {type(result).__name__}")
            hash(result)
            return result

        return called

    for name, one in functions.items():
        if not isinstance(one, Function) or not isinstance(name, str) or not name.isidentifier():
            raise CepError(f"{shown(name)} is no name with a cep_core.Function")
    return {name: one._replace(call=strict(one)) for name, one in functions.items()}
