"""Connections: external records enter through sources, matches leave through sinks.

Sources and sinks may have wrappers that translate between events and what they know themselves
(Schultz-Møller, Migliavacca and Pietzuch 2009, section 3.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from cep_core.engine import Engine
from cep_core.errors import CepError, near_miss
from cep_core.events import Match
from cep_core.languages.definitions import Definition, definitions

Wrapper: TypeAlias = Callable[[Any], Any]  # of a source: record to event; of a sink: event to it


class Connections:
    """An engine with its sources and sinks.

        connections = Connections(engine, "SOURCE t (acc str) SINK alerts (acc str)",
                                  {"alerts": print})
        connections.register("q", "SELECT A.acc FROM t A PUBLISH alerts", "eql")
        connections.send("t", records)

    A query that publishes the name of a sink has to have its schema.
    """

    def __init__(
        self, engine: Engine, text: str, wrappers: Mapping[str, Wrapper] | None = None
    ) -> None:
        self.engine = engine
        self.sources: dict[str, Definition] = {}
        self.sinks: dict[str, Definition] = {}
        self._wrappers = dict(wrappers or {})
        found = definitions(text, engine.ticks_per_second)
        for name in self._wrappers:
            if name not in {one.name for one in found}:
                hint = near_miss(name, [one.name for one in found])
                raise CepError(f"there is no source or sink {name}", hint=hint)
        for one in found:
            if one.kind == "source":
                engine.stream(one.name, one.schema, lateness=one.lateness, rate=one.rate)
                self.sources[one.name] = one
            else:
                self.sinks[one.name] = one

    def register(self, name: str, query: str, language: str) -> None:
        """Add a query; if it publishes the name of a sink, it has to fit."""
        self.engine.register(name, query, language)
        registered = self.engine.query(name)
        sink = self.sinks.get(registered.publishes or "")
        if sink is not None and sink.schema != registered.schema:
            self.engine.unregister(name)
            raise CepError(
                f"{name} has {registered.schema}, the sink {sink.name} takes {sink.schema}"
            )

    def send(self, source: str, records: Iterable[Any]) -> list[Match]:
        """Push what a source sends; return the matches, those for sinks delivered, too."""
        if source not in self.sources:
            hint = near_miss(source, self.sources)
            raise CepError(f"there is no source {source}", hint=hint)
        wrapper = self._wrappers.get(source)
        events = records if wrapper is None else map(wrapper, records)
        return self.delivered(self.engine.push(events))

    def delivered(self, matches: list[Match]) -> list[Match]:
        """Pass matches to their sinks; return all of them."""
        for name, event in matches:
            sink = self.engine.query(name).publishes
            wrapper = self._wrappers.get(sink or "")
            if sink in self.sinks and wrapper is not None:
                wrapper(event)
        return matches
