"""Engines whose streams have the same attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cep_core import Engine, Schema


def engine_of(
    names: Iterable[str], attributes: Mapping[str, type] | Schema, **options: Any
) -> Engine:
    """Return an engine whose ticks are seconds; ``options`` are those of the streams."""
    core = Engine(1)
    for name in names:
        core.stream(name, attributes, **options)
    return core
