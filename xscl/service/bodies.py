"""JSON bodies of requests and responses.

The docstring after a field is its description in the OpenAPI document (`use_attribute_docstrings` of
pydantic); `Field` only has the examples and the limits.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """A JSON object whose fields are described by the docstrings after them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RequestBody(Body):
    """The body of a request; a field that it does not declare is an error."""

    model_config = ConfigDict(extra="forbid")
