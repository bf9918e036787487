"""Public names of the packages with signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections import ChainMap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel

import cep_core
import xscl
import xscl.client
import xscl.spark
from tools.site.tables import table

PACKAGES: tuple[ModuleType, ...] = (xscl, xscl.client, xscl.spark, cep_core)


def python() -> str:
    """Return every public name of the packages, and the public members of classes."""
    parts = []
    for package in PACKAGES:
        parts.append(f"## {package.__name__}\n")
        for name in sorted(package.__all__):
            parts.extend(_described(package.__name__, name, getattr(package, name)))
    return "\n".join(parts)


def _described(package: str, name: str, found: Any) -> Iterator[str]:
    yield f"### {package}.{name}\n"
    if inspect.isclass(found):
        yield _document(found)
        if not issubclass(found, Exception):
            yield from _members(found)
    elif callable(found):
        yield f"```text\n{name}{_signature(found)}\n```\n"
        yield _document(found)
    else:
        yield f"A constant of type `{type(found).__name__}`.\n"


def _members(found: type) -> Iterator[str]:
    if _signature(found) not in ("()", "(*args, **kwargs)"):
        yield f"```text\n{found.__name__}{_signature(found)}\n```\n"
    for name, member in inspect.getmembers(found, _is_described):
        if name.startswith("_") or not inspect.getdoc(member) or hasattr(BaseModel, name):
            continue
        if isinstance(member, property):
            yield f"`{name}`: {_document(member)}"
        else:
            yield f"```text\n{name}{_signature(member)}\n```\n\n{_document(member)}"


def _is_described(member: object) -> bool:
    return inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, property)


def _signature(found: Any) -> str:
    """Return a signature with annotations as they are written, without long defaults."""
    fields: dict[str, Any] = {}
    if inspect.isclass(found) and issubclass(found, BaseModel):
        found.model_rebuild()  # else it has no signature before its first use
        fields = get_type_hints(found)
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return "()"
    kinds = ChainMap(
        fields, *(vars(one).get("__annotations__", {}) for one in getattr(found, "__mro__", ()))
    )
    given = [one for one in signature.parameters.values() if one.name != "self"]
    given = [one.replace(annotation=kinds.get(one.name, one.annotation)) for one in given]
    given = [one.replace(default=...) if len(repr(one.default)) > 60 else one for one in given]
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=given)))
    text = re.sub(r"\b(xscl(\.[a-z_]+)+|answers|service)\.(?=[A-Z])", "", text)
    # An object without a form of its own is written with its address, another one each time.
    return re.sub(r"= <\w+ (\w+) at 0x\w+>", r"= \1", text).replace("= Ellipsis", "= ...")


def _document(found: object) -> str:
    """Return a docstring whose indented parts are blocks of code already."""
    text = inspect.cleandoc(found.__doc__ or "")
    lines = ("    " + line if line.startswith(">>>") else line for line in text.splitlines())
    return "\n".join(lines).replace("<", "&lt;") + "\n"


def exceptions() -> str:
    """Return the exceptions of `xscl` with their codes."""
    rows = []
    for name in sorted(xscl.__all__):
        found = getattr(xscl, name)
        if inspect.isclass(found) and issubclass(found, Exception):
            first = (found.__doc__ or "").strip().splitlines()[0]
            rows.append((f"`{name}`", f"`{getattr(found, 'code', '')}`", first))
    return table(("exception", "code", "meaning"), rows)
