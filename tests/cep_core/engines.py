"""Engines with streams, and what a query finds there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cep_core import Engine, Event, Schema


def engine_of(
    names: Iterable[str], attributes: Mapping[str, type] | Schema, **options: Any
) -> Engine:
    """Return an engine whose streams have the same attributes and options."""
    return engine_with(dict.fromkeys(names, attributes), **options)


def engine_with(streams: Mapping[str, Mapping[str, type] | Schema], **options: Any) -> Engine:
    """Return an engine whose ticks are seconds; ``options`` are those of the streams."""
    core = Engine(1)
    for name, attributes in streams.items():
        core.stream(name, attributes, **options)
    return core


def rows_found(
    core: Engine, query: str, events: Sequence[Event], language: str = "cel"
) -> list[Event]:
    """Return the results of a query over all that there is."""
    core.register("q", query, language)
    return [event for _, event in [*core.push(events), *core.close()]]


def values_found(
    core: Engine, query: str, events: Sequence[Event], language: str = "cel"
) -> list[tuple[Any, ...]]:
    """Return the values of the results of a query over all that there is."""
    return [event.values for event in rows_found(core, query, events, language)]
