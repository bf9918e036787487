"""The public engine, a facade over its state, ingest, registration and queries.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xscl.engine.facade import Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> object:
    """Import the facade on first use: Spark's planner imports this package without DuckDB."""
    if name != "Engine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xscl.engine.facade import Engine

    return Engine
