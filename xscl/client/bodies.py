"""Bodies of requests and answers, as the OpenAPI document describes them."""

from __future__ import annotations

import ast
import inspect
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from xscl.time_format import EARLIEST, LATEST

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(ticks: int) -> datetime:
    """Return a time in ticks as a date, clipped to the years that RFC 3339 can write."""
    return _EPOCH + timedelta(microseconds=min(max(ticks, EARLIEST), LATEST))


def ticks_of(time: datetime) -> int:
    """Return a time as ticks: microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def _date(value: Any) -> Any:
    return time_of(value) if isinstance(value, int) else value


def _text(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


Moment: TypeAlias = Annotated[
    datetime,
    BeforeValidator(_date),
    PlainSerializer(_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time, in JSON as ISO 8601 in UTC: `2026-03-01T12:00:00Z`, or with a fraction.  Routes give it
in ticks."""


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields, by their names, of each class of a module by its name.

    `inspect.getsource` would parse the module once for each class.
    """
    return {
        declared.name: {
            one.target.id: inspect.cleandoc(then.value.value)
            for one, then in pairwise(declared.body)
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            if isinstance(then, ast.Expr) and isinstance(then.value, ast.Constant)
            if isinstance(then.value.value, str)
        }
        for declared in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(declared, ast.ClassDef)
    }


class JsonBody(BaseModel):
    """A JSON object whose fields are described by the docstrings after them.

    `model_validate` also takes an object with attributes of the same names.
    """

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the docstrings of fields to the schema, which is made when somebody asks for it.

        `use_attribute_docstrings` of pydantic reads the sources when the classes are made, which
        is a quarter of the time that a service takes to start.
        """
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for parent in reversed(cls.__mro__):
            if issubclass(parent, JsonBody) and "[" not in parent.__name__:  # not parametrized
                for name, text in _docstrings(parent.__module__)[parent.__name__].items():
                    properties[cls.model_fields[name].alias or name]["description"] = text
        return schema


class Answer(JsonBody):
    """An object of an answer; routes make it, clients read it."""

    model_config = ConfigDict(frozen=True, defer_build=True)
