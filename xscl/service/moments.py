"""The pydantic type of times: ticks in Python, text in JSON."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import PlainSerializer, WithJsonSchema

from xscl.time_format import written

Moment: TypeAlias = Annotated[
    int,
    PlainSerializer(written, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time in ticks, in JSON as ISO 8601 in UTC: `2026-03-01T12:00:00Z`, or with a fraction."""
