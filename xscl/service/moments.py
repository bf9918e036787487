"""The pydantic type of times: ticks in Python, text in JSON."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from xscl.delivery.message import moment
from xscl.time_format import written

Moment: TypeAlias = Annotated[
    int,
    PlainSerializer(written, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time in ticks, in JSON as ISO 8601 in UTC: `2026-03-01T12:00:00Z`, or with a fraction."""

DeliveryTime: TypeAlias = Annotated[str, BeforeValidator(moment)]
"""A time as deliveries write it (RFC 3339), validated from ticks."""
