"""AIR, the automaton intermediate representation: automata as XML (Hong 2009, section 4.4.3).

Each state has its instances' schema, its input, its filter and rebind edges; each forward edge its
predicate and schema map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from cep_core.algebra import expressions as ex
from cep_core.algebra.operands import operands
from cep_core.decimals import BoundedDecimal
from cep_core.errors import AlgebraError
from cep_core.events import TYPES, Schema, shown, written
from cep_core.views.automata import AutomatonView, Forward, Input, Unary, WaitingState

_LARGEST = 10_000_000  # characters of a document
_TEXT = re.compile("[\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")  # that XML keeps
_TYPES: dict[str, type] = {kind.__name__: kind for kind in TYPES}


def to_xml(view: AutomatonView, literals: Sequence[Any] = ()) -> str:
    """Return an automaton as an XML document; ``literals`` are the values of its parameters."""
    root = Element("automaton", version="1")
    for state in view.states:
        _state(SubElement(root, "state", name=state.name), state, literals)
    for edge in view.edges:
        element = SubElement(root, "forward", {"from": edge.source, "to": edge.target})
        _unary(element, edge.unary, literals)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def from_xml(text: str) -> AutomatonView:
    """Return the automaton of a document; raises AlgebraError with what is wrong where."""
    if len(text) > _LARGEST or "<!DOCTYPE" in text:
        raise AlgebraError("an automaton is a document without DOCTYPE of at most 10 MB")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise AlgebraError(f"this is no XML document: {error}") from None
    try:
        states = tuple(_read_state(element) for element in root.findall("state"))
        edges = tuple(_read_forward(element) for element in root.findall("forward"))
    except (KeyError, ValueError, IndexError) as error:
        raise AlgebraError(f"the automaton is not well-formed: {error}") from None
    except RecursionError:
        raise AlgebraError("the automaton's expressions are nested too deeply") from None
    if not states:
        raise AlgebraError("an automaton has at least two states")
    known = {state.name for state in states}
    if len(known) < len(states):
        raise AlgebraError("two states of the automaton have the same name")
    for edge in edges:
        for name in (edge.source, edge.target):
            if name not in known:
                raise AlgebraError(f"an edge names the state {name}, which is not there")
    return AutomatonView(states, edges)


def _state(element: Element, state: WaitingState, literals: Sequence[Any]) -> None:
    _schema(element, state.schema)
    if state.input is None:
        element.set("final", "yes")
        return
    input = SubElement(element, "input", stream=state.input.stream)
    _schema(input, state.input.schema)
    _unary(input, state.input.unary, literals)
    if state.filter is not None:
        filter = SubElement(element, "filter", negated="yes")
        filter.append(_expression(state.filter, literals))
    if state.rebind is not None:
        rebind = SubElement(element, "rebind")
        rebind.append(_expression(state.rebind, literals))
        for name, expression, kind in state.aggregates:
            aggregate = SubElement(rebind, "aggregate", name=name, type=kind.__name__)
            aggregate.append(_expression(expression, literals))


def _schema(parent: Element, schema: Schema) -> None:
    element = SubElement(parent, "schema")
    for name, kind in zip(schema.names, schema.types, strict=True):
        SubElement(element, "attribute", name=name, type=kind.__name__)


def _unary(parent: Element, unary: Unary, literals: Sequence[Any]) -> None:
    predicate = SubElement(parent, "predicate")
    predicate.append(_expression(unary.predicate, literals))
    if unary.columns is not None:
        columns = SubElement(parent, "map")
        for name, column in unary.columns:
            SubElement(columns, "attribute", name=name).append(_expression(column, literals))


def _expression(node: ex.Expression, literals: Sequence[Any]) -> Element:
    """Return an expression as an element."""
    if isinstance(node, ex.Constant | ex.Parameter):
        return _constant(literals[node.index] if isinstance(node, ex.Parameter) else node.value)
    kind = type(node).__name__
    form = _FORMS.get(kind.lower())
    if form is None:
        raise AlgebraError(f"{kind} is not part of an automaton", hint="publish it first")
    element = Element(kind.lower(), {name: str(getattr(node, name)) for name in form.attributes})
    element.extend([_expression(part, literals) for part in operands(node, "Expression")])
    return element


def _constant(value: Any) -> Element:
    if value is None:
        return Element("constant", type="null")
    element = Element("constant", type=type(value).__name__)
    if isinstance(value, str):
        element.text = value
    elif isinstance(value, BoundedDecimal):
        element.text = str(value)
    elif type(value) is int and value.bit_length() > 64:
        element.text = hex(value)  # of any size
    else:
        element.text = written(value)
    if type(value) not in TYPES or not _TEXT.fullmatch(element.text):
        raise AlgebraError(f"an XML document cannot have the constant {shown(value)}")
    return element


def _read_state(element: Element) -> WaitingState:
    schema = _read_schema(element)
    input, filter, rebind = (element.find(tag) for tag in ("input", "filter", "rebind"))
    if input is None:
        return WaitingState(element.attrib["name"], schema, None)
    aggregates = [] if rebind is None else rebind.findall("aggregate")
    return WaitingState(
        element.attrib["name"],
        schema,
        Input(input.attrib["stream"], _read_schema(input), _read_unary(input)),
        None if filter is None else _read(filter[0]),
        None if rebind is None else _read(rebind[0]),
        tuple(
            (one.attrib["name"], _read(one[0]), _TYPES[one.attrib["type"]]) for one in aggregates
        ),
    )


def _read_forward(element: Element) -> Forward:
    return Forward(element.attrib["from"], element.attrib["to"], _read_unary(element))


def _read_schema(element: Element) -> Schema:
    found = element.findall("schema/attribute")
    return Schema(
        tuple(one.attrib["name"] for one in found),
        tuple(_TYPES[one.attrib["type"]] for one in found),
    )


def _read_unary(element: Element) -> Unary:
    predicate, columns = element.find("predicate"), element.find("map")
    return Unary(
        ex.TRUE if predicate is None else _read(predicate[0]),
        None if columns is None else tuple((one.attrib["name"], _read(one[0])) for one in columns),
    )


def _read(element: Element) -> ex.Expression:
    tag, items = element.tag, tuple(map(_read, element))
    if tag == "constant":
        return _read_constant(element)
    if tag not in _FORMS:
        raise ValueError(f"<{tag}> is no expression")
    kind, attributes, number = _FORMS[tag]
    values = [read(element.attrib[name]) for name, read in attributes.items()]
    if number is None:
        return kind(*values, items)
    if len(items) != number:
        wanted = ("no operand", "one operand", "two operands")[number]
        raise ValueError(f"<{tag}> has {wanted}, not {len(items)}")
    return kind(*values, *items)


def _one_of(name: str, *known: Any) -> Callable[[str], Any]:
    """Return a reader of an attribute that has one of some values."""
    by_text = {str(one): one for one in known}

    def read(text: str) -> Any:
        if text not in by_text:
            raise ValueError(f"{name}={text!r} is none of {' '.join(by_text)}")
        return by_text[text]

    return read


class _Form(NamedTuple):
    """An expression as XML: readers of its attributes, the number of operands; None: any."""

    kind: Callable[..., ex.Expression]
    attributes: Mapping[str, Callable[[str], Any]]
    number: int | None


_FORMS = {
    "column": _Form(ex.Column, {"side": _one_of("side", 1, 2), "index": int}, 0),
    "duration": _Form(ex.Duration, {}, 0),
    "missing": _Form(ex.Missing, {}, 0),
    "negative": _Form(ex.Negative, {}, 1),
    "arithmetic": _Form(ex.Arithmetic, {"operator": _one_of("operator", *ex.OPERATORS)}, 2),
    "call": _Form(ex.Call, {"function": str}, None),
    "compare": _Form(ex.Compare, {"operator": _one_of("operator", *ex.COMPARISONS)}, 2),
    "and": _Form(ex.And, {}, None),
    "or": _Form(ex.Or, {}, None),
    "not": _Form(ex.Not, {}, 1),
    "case": _Form(ex.Case, {}, None),
    "coalesce": _Form(ex.Coalesce, {}, None),
    "isnull": _Form(ex.IsNull, {}, 1),
}  # by the names of the classes in lower case
_CONSTANTS: Mapping[str, Callable[[str], Any]] = {
    "decimal": BoundedDecimal,
    "null": lambda _: None,
    "str": str,
    "int": lambda number: int(number, 0),
    "float": float,
    "bool": lambda word: word == "True",
}


def _read_constant(element: Element) -> ex.Constant:
    return ex.Constant(_CONSTANTS[element.attrib["type"]](element.text or ""))
