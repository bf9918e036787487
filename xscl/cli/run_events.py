"""`xscl run --language`: event queries over files of events, one shot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

import typer

from cep_core import (
    LANGUAGES,
    CepError,
    Definition,
    Engine,
    Event,
    Match,
    QueryError,
    Schema,
    definitions,
    refuse_bare_windows,
)
from cep_core.algebra import BoundedDecimal, decimal_value, integer_of, number_of, text_of
from xscl.cli.document_inputs import instant, named_paths
from xscl.cli.event_records import EventRecord, RecordValue, Unreadable, identifier, read
from xscl.cli.options import file_text, query_text
from xscl.cli.output import UsageError, echo, json_line, judge, one_line, warn
from xscl.cli.query_options import refuse_unknown_language
from xscl.language.functions import EVENT_FUNCTIONS
from xscl.plurals import counted
from xscl.time_format import ticks_to_second

LANGUAGE_NAMES = tuple(LANGUAGES)


@dataclass(frozen=True, slots=True)
class EventRun:
    """The options of one call of `xscl run --language`."""

    language: str
    queries: Sequence[str]
    inputs: Sequence[str]
    mapped: Sequence[str]
    schema: Path | None
    time: str | None
    unit: str | None


@dataclass(slots=True)
class EventInput:
    """The events of all inputs, and the number of unreadable records."""

    events: list[Event] = field(default_factory=list)
    schemas: dict[str, Schema] = field(default_factory=dict)
    unread: int = 0
    nothing: list[str] = field(default_factory=list)  # streams without schema and records
    texts: list[str] = field(default_factory=list)
    """Remarks on columns that are text since one of their values is no number."""

    def skip(self, one: Unreadable) -> None:
        """Warn of an unreadable record, and count it."""
        warn(f"not read: {one.place}: {one.reason}", one.hint)
        self.unread += 1


def run_events(options: EventRun, *, strict: bool, as_json: bool) -> None:
    """Run event queries over files and print their matches."""
    refuse_unknown_language(options.language, LANGUAGE_NAMES)
    if options.unit is not None and options.unit not in UNITS:
        raise UsageError(f"there is no unit {options.unit}", hint=f"there are {', '.join(UNITS)}")
    defined = _defined(options.schema)
    found = _read(options, defined)
    engine = _engine(options, defined, found)
    matches = [*engine.push(found.events), *engine.close()]
    for match in matches:
        _write(match, as_json=as_json)
    read_ = len(found.events) - len(engine.rejected)
    unread = found.unread + len(engine.rejected)
    for rejected in engine.rejected:
        warn(f"not read: {rejected.event.stream}: {rejected.reason}")
    if not matches:
        warn(f"no match among {counted(read_, 'event')}")
    judge("events", read_, unread, strict=strict)


def _defined(path: Path | None) -> dict[str, Definition]:
    """Return the sources of a schema file, by name."""
    if path is None:
        return {}
    text = file_text(path, "the schema file")
    try:
        found = definitions(text, SECOND)
    except QueryError as error:
        warn(f"{path}: {error}")
        raise typer.Exit(2) from None
    return {one.name: one for one in found if one.kind == "source"}


def _engine(options: EventRun, defined: dict[str, Definition], found: EventInput) -> Engine:
    """Return an engine with the streams and the queries."""
    engine = Engine(SECOND, functions=EVENT_FUNCTIONS)
    try:
        for name, schema in found.schemas.items():
            one = defined.get(name)
            engine.stream(name, schema, rate=None if one is None else one.rate)
        for number, given in enumerate(options.queries, 1):
            text = query_text(given)
            refuse_bare_windows(text, options.language)
            engine.register(f"q{number}", text, options.language)
    except CepError as error:
        warn(str(error))
        for name in found.nothing:
            hint = f"say what it has with --schema: SOURCE {name} (price float)"
            warn(f"nothing is known of {name}: no event of it could be read", hint)
        if error.code == "type":
            for text in found.texts:
                warn(text)
        raise typer.Exit(2) from None
    return engine


# -- inputs --------------------------------------------------------------------------------


def _read(options: EventRun, defined: dict[str, Definition]) -> EventInput:
    """Return the events of all inputs in the order of time."""
    found = EventInput()
    by_stream: dict[str, list[EventRecord]] = {name: [] for name in defined}
    for stream, path in _inputs(options, defined):
        records = by_stream.setdefault(stream, [])
        columns = defined[stream].schema.names if stream in defined else ()
        for one in read(path, columns):
            if isinstance(one, EventRecord):
                records.append(one)
            else:
                found.skip(one)
    unit = UNITS[options.unit or "us"]
    for stream, records in by_stream.items():
        own = defined.get(stream)
        if own is None and not records:
            found.nothing.append(stream)
            continue
        wanted = options.time if own is None or own.time is None else own.time
        column = time_column(records, wanted, stream) if records else None
        if records and column is None:
            _warn_of_made_times(stream, records)
        times = [name for name in (column, BEGIN) if column and name]
        schema = found.schemas[stream] = own.schema if own else inferred_schema(records, times)
        found.texts += () if own else _texts_among_numbers(stream, records, schema)
        warning = unit_warning(records, column) if options.unit is None else None
        if warning is not None:
            hint = f"say --unit {', '.join(UNITS)}"
            warn(f"the times of {stream} are taken as microseconds, but {warning}", hint)
        for record in records:
            try:
                values = typed(record, schema)
                found.events.append(Event(stream, values, *interval(record, column, unit)))
            except Unreadable as error:
                found.skip(error)
    found.events.sort(key=lambda one: (one.t1, one.t0))
    return found


def _texts_among_numbers(
    stream: str, records: Sequence[EventRecord], schema: Schema
) -> Iterator[str]:
    for name, kind in zip(schema.names, schema.types, strict=True):
        first = first_text(records, name) if kind is str else None
        if first is not None:
            value = one_line(repr(first.values[name]), 60)
            yield f"the column {name} of {stream} is text: {first.place} has {value}"


def _warn_of_made_times(stream: str, records: Sequence[EventRecord]) -> None:
    column = column_like_times(records)
    hint = "say --time NAME" if column is None else f"say --time {column}: its values are times"
    warn(f"warning: {stream} has no column 'time': its events are taken as a second apart", hint)


def _inputs(options: EventRun, defined: dict[str, Definition]) -> Iterator[tuple[str, str]]:
    """Yield stream and path of each input; the stream is that of --stream, else the file's stem.

    Standard input, and files whose stem is not a defined stream, belong to the only defined stream.
    Raises UsageError if there is no input, or if that stream is ambiguous.
    """
    mapped = list(named_paths(options.mapped))
    yield from mapped
    named = [path for _, path in mapped]
    others = [path for path in options.inputs if path not in named]
    if not named and not others:
        raise UsageError("there is nothing to read", hint="name files, or - for standard input")
    for path in others:
        stem = identifier(Path(path).stem)
        if path == "-" or (defined and stem not in defined):
            if len(defined) != 1:
                message = f"of which stream are the events of {path}?"
                raise UsageError(message, hint=f"say it with --stream NAME={path}")
            stem = next(iter(defined))
        yield stem, path


# -- answers -------------------------------------------------------------------------------


def _write(match: Match, *, as_json: bool) -> None:
    event = match.event
    names = event.schema.names if event.schema else ()
    if as_json:
        values = ", ".join(
            f"{json.dumps(n)}: {_json(v)}" for n, v in zip(names, event.values, strict=True)
        )
        row = json_line({"query": match.query, "t0": event.t0, "t1": event.t1})
        echo(f'{row[:-1]}, "values": {{{values}}}}}')
        return
    shown = zip(names, map(_shown, event.values), strict=True)
    at, listed = ticks_to_second(event.t1 or 0), "  ".join(f"{n}={v}" for n, v in shown)
    echo(f"{at}  {match.query}  {listed}")


def _json(value: Any) -> str:
    """Return a value as JSON: decimals are exact numbers, NaN and infinities null."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, float | BoundedDecimal):
        return str(value) if isfinite(value) else "null"
    return json.dumps(value)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return one_line(text_of(value) or "", 100)


SECOND = 1_000_000
UNITS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 1_000),
    **dict.fromkeys(("us", "usec"), Fraction(1)),
    **dict.fromkeys(("ms", "msec"), Fraction(1_000)),
    **dict.fromkeys(("s", "sec"), Fraction(SECOND)),
}
_SINCE_1970 = {"seconds": 10**8, "milliseconds": 10**11, "nanoseconds": 10**17}  # from 1973 on
_MICROSECONDS_SINCE_1970 = 10**14
TIMES = ("time", "timestamp", "t1")
BEGIN = "t0"
_WORDS = {"true": True, "false": False}
_PARSERS: Mapping[type, Callable[[str], RecordValue]] = {
    str: str,
    int: integer_of,
    float: number_of,
    BoundedDecimal: decimal_value,
    bool: lambda text: _WORDS.get(text.lower()),
}

# -- types ---------------------------------------------------------------------------------


def inferred_schema(records: Iterable[EventRecord], without: Sequence[str]) -> Schema:
    """Return the schema of records: columns but `without`, in order of appearance, with types."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.values.items():
            if name not in without:
                found = kinds.setdefault(name, set())
                found |= {str} if record.typed and isinstance(value, str) else _kinds(value)
    return Schema(tuple(kinds), tuple(map(_common_type, kinds.values())))


def first_text(records: Iterable[EventRecord], name: str) -> EventRecord | None:
    """Return the first record with a text in a column of numbers; None if there is none."""
    texts: list[EventRecord] = []
    has_numbers = False
    for record in records:
        kinds = _kinds(record.values.get(name))
        has_numbers = has_numbers or bool(kinds & {int, float})
        texts += [record] if str in kinds and not texts else []
    return texts[0] if texts and has_numbers else None


def _kinds(value: RecordValue) -> set[type]:
    """Return the type that a value has or, as a text, can be parsed as; empty for None."""
    if value is None:
        return set()
    if not isinstance(value, str):
        return {type(value)}
    if value[:1] in ("0", "-", "+") and not _NUMBER.fullmatch(value):
        return {str}  # such as 007: a name of digits
    if _INTEGER.fullmatch(value) and integer_of(value) is not None:
        return {int}
    found = number_of(value)
    if found is not None and isfinite(found):
        return {float}
    return {str if _PARSERS[bool](value) is None else bool}


_INTEGER = re.compile(r"[ \t]*[0-9-]+[ \t]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def _common_type(kinds: set[type]) -> type:
    """Return the narrowest type for values of several types."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def typed(record: EventRecord, schema: Schema) -> tuple[RecordValue, ...]:
    """Return a record's values under a schema; missing ones are None.  Raises Unreadable."""
    found: list[RecordValue] = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        value = record.values.get(name)
        if isinstance(value, str) and kind is not str:
            made = _PARSERS[kind](value)
            if made is None:
                said = one_line(repr(value), 60)
                raise Unreadable(record.place, f"{name} is {said}, not of type {kind.__name__}")
            value = None if made != made else made  # NaN is null, as in leaves of documents
        elif value is not None and kind is str and not isinstance(value, str):
            value = json.dumps(value)
        elif isinstance(value, float) and kind is BoundedDecimal:
            value = decimal_value(value)
        found.append(value)
    if (fault := schema.fault(found)) is not None:
        raise Unreadable(record.place, fault)
    return tuple(found)


# -- times ---------------------------------------------------------------------------------


def time_column(records: Sequence[EventRecord], wanted: str | None, stream: str) -> str | None:
    """Return the column with the times of records, None if they have none."""
    names = {name for record in records for name in record.values}
    if wanted is None:
        return next((name for name in TIMES if name in names), None)
    if wanted not in names:
        columns = ", ".join(sorted(names))
        raise UsageError(f"{stream} has no column {wanted}", hint=f"there are {columns}")
    return wanted


def column_like_times(records: Sequence[EventRecord]) -> str | None:
    """Return the first column whose values are all written times, not numbers; None without one."""
    found: dict[str, bool] = {}
    for record in records:
        for name, value in record.values.items():
            if value is not None and found.setdefault(name, True):
                found[name] = _number(value) is None and _ticks(value, Fraction(1)) is not None
    return next((name for name, is_time in found.items() if is_time), None)


def unit_warning(records: Iterable[EventRecord], column: str | None) -> str | None:
    """Return a reason why numeric times may not be microseconds, None without one."""
    if column is None:
        return None
    times = [time for record in records if (time := _number(record.values.get(column))) is not None]
    if not times:
        return None
    least, most = min(times), max(times)
    for unit, since in _SINCE_1970.items():
        if since <= least and most < 1_000 * since:
            return f"they look like {unit} since 1970"
    if least < most < least + SECOND and abs(most) < _MICROSECONDS_SINCE_1970:
        return f"all of them are within {one_line(repr(most - least))} of one another"
    return None


def interval(record: EventRecord, column: str | None, unit: Fraction) -> tuple[int, int]:
    """Return the interval of a record in ticks; without a `column` records are a second apart.

    Raises Unreadable.
    """
    if column is None:
        time = record.number * SECOND
        return time, time
    end = _ticks(record.values.get(column), unit)
    begin = end
    if column != BEGIN and record.values.get(BEGIN) is not None:
        begin = _ticks(record.values[BEGIN], unit)
    if end is None or begin is None:
        wrong = record.values.get(column if end is None else BEGIN)
        raise Unreadable(record.place, f"{one_line(repr(wrong), 60)} is no time")
    if begin > end:
        raise Unreadable(record.place, "it ends before it begins")
    return begin, end


def _ticks(value: RecordValue, unit: Fraction) -> int | None:
    number = _number(value)
    if number is not None:
        return round(Fraction(number) * unit)
    try:
        return instant(value) if isinstance(value, str) else None
    except UsageError:
        return None


def _number(value: RecordValue) -> int | float | None:
    """Return a finite number, parsed from a text if need be; None if it is not one."""
    if isinstance(value, str):
        value = integer_of(value) or number_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isfinite(value) else None
