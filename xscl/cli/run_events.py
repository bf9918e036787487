"""`xscl run --language`: event queries over files of events, one shot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
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
from xscl.cli.argument_files import file_text, query_text
from xscl.cli.document_inputs import named_paths
from xscl.cli.event_records import EventRecord, Unreadable, identifier, read
from xscl.cli.event_types import (
    BEGIN,
    SECOND,
    UNITS,
    column_like_times,
    first_text,
    inferred_schema,
    interval,
    time_column,
    typed,
    unit_warning,
)
from xscl.cli.output import UsageError, echo, echo_json, judge, one_line, warn
from xscl.cli.printed_times import ticks_to_second
from xscl.cli.query_options import refuse_unknown_language
from xscl.language.functions import EVENT_FUNCTIONS
from xscl.plurals import counted

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


@dataclass(frozen=True, slots=True)
class EventInput:
    """The events of all inputs in order of time, and the number of unreadable records."""

    events: tuple[Event, ...]
    schemas: dict[str, Schema]
    unread: int
    nothing: tuple[str, ...]  # streams of which nothing is known
    texts: tuple[str, ...]  # remarks on columns of numbers that are text for one of their values


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
    unread = found.unread + len(engine.rejected)
    for rejected in engine.rejected:
        warn(f"not read: {rejected.event.stream}: {rejected.reason}")
    if not matches:
        warn(f"no match among {counted(len(found.events), 'event')}")
    judge("events", len(found.events), unread, strict=strict)


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
    """Return the events of all inputs; report and count the unreadable records."""
    by_stream: dict[str, list[EventRecord]] = {name: [] for name in defined}
    unread = 0
    for stream, path in _inputs(options, defined):
        records = by_stream.setdefault(stream, [])
        columns = defined[stream].schema.names if stream in defined else ()
        try:
            for one in read(path, columns):
                unread += _append(one, records)
        except OSError as error:
            unread += _append(Unreadable(path, error.strerror or str(error)), records)
    unit = UNITS[options.unit or "us"]
    schemas: dict[str, Schema] = {}
    events: list[Event] = []
    nothing: list[str] = []
    texts: list[str] = []
    for stream, records in by_stream.items():
        own = defined.get(stream)
        if own is None and not records:
            nothing.append(stream)
            continue
        wanted = options.time if own is None or own.time is None else own.time
        column = time_column(records, wanted, stream) if records else None
        if records and column is None:
            _warn_of_made_times(stream, records)
        times = [name for name in (column, BEGIN) if column and name]
        schemas[stream] = own.schema if own else inferred_schema(records, times)
        texts += () if own else _texts_among_numbers(stream, records, schemas[stream])
        warning = unit_warning(records, column) if options.unit is None else None
        if warning is not None:
            hint = f"say --unit {', '.join(UNITS)}"
            warn(f"the times of {stream} are taken as microseconds, but {warning}", hint)
        for record in records:
            event = _event(stream, record, schemas[stream], column, unit)
            if isinstance(event, Unreadable):
                unread += _append(event, records)
            else:
                events.append(event)
    events.sort(key=lambda one: (one.t1, one.t0))
    return EventInput(tuple(events), schemas, unread, tuple(nothing), tuple(texts))


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
    """Yield (stream, path) of each input; the stream is that of --stream, else the file's stem.

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


def _append(one: EventRecord | Unreadable, records: list[EventRecord]) -> int:
    """Append a record, or warn of an unreadable one; return 1 if it was unreadable, else 0."""
    if isinstance(one, EventRecord):
        records.append(one)
        return 0
    warn(f"not read: {one.place}: {one.reason}", one.hint)
    return 1


def _event(
    stream: str, record: EventRecord, schema: Schema, column: str | None, unit: Fraction
) -> Event | Unreadable:
    values, times = typed(record, schema), interval(record, column, unit)
    if isinstance(values, Unreadable):
        return values
    if isinstance(times, Unreadable):
        return times
    if times[0] > times[1]:
        return Unreadable(record.place, "it ends before it begins")
    return Event(stream, values, *times)


# -- answers -------------------------------------------------------------------------------


def _write(match: Match, *, as_json: bool) -> None:
    event = match.event
    names = event.schema.names if event.schema else ()
    if as_json:
        values = dict(zip(names, event.values, strict=True))
        echo_json({"query": match.query, "t0": event.t0, "t1": event.t1, "values": values})
        return
    shown = zip(names, map(_shown, event.values), strict=True)
    at, listed = ticks_to_second(event.t1 or 0), "  ".join(f"{n}={v}" for n, v in shown)
    echo(f"{at}  {match.query}  {listed}")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return one_line(value if isinstance(value, str) else "" if value is None else repr(value), 100)
