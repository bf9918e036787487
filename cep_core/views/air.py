"""AIR, the automaton intermediate representation: automata as XML (Hong 2009, section 4.4.3).

A document is the automaton of a linear-plus query (sections 3.3.2 and 4.3), for people, pictures
and exchange; nothing runs on it.  Each state but the start and the end stands for a `;` or a `μ`
and reads one stream.  It has the schema of its instances, its input, and a *filter* edge to itself
for rows to which θ does not apply: they leave an instance unchanged.  A `μ` has a *rebind* edge
with its aggregates.  A *forward* edge has a predicate and a schema map over the state's output:
σ, then π ∘ ρ ∘ α_g (Lemma 2).

Not every expression is linear-plus (Theorem 3): the right side of `;` and `μ` has to be a stream.
Any other right side has to be published by a query of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from cep_core import algebra
from cep_core.algebra import Iterate, Node, Project, Select, Stream, Union
from cep_core.algebra import expressions as ex
from cep_core.algebra.expressions import Functions
from cep_core.algebra.operands import operands
from cep_core.decimals import BoundedDecimal
from cep_core.errors import AlgebraError
from cep_core.events import TYPES, Schema, shown, written

_LARGEST = 10_000_000  # characters of a document
_MOST_STATES = 200
_MOST_EDGES = 1_000
_LOST = re.compile(r"[\0-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")  # what XML does not keep
_TYPES: dict[str, type] = {kind.__name__: kind for kind in TYPES}


def to_xml(node: Node, literals: Sequence[Any] = ()) -> str:
    """Return the automaton of an expression as an XML document.

    ``literals`` are the values of its parameters.  Raises AlgebraError if it is not linear-plus.
    """
    drawing = _Drawing(literals)
    drawing.enter(node, "end", _Unary())
    end = SubElement(drawing.root, "state", name="end", final="yes")
    drawing.root.extend(drawing.edges)
    _add_schema(end, node.schema)
    ElementTree.indent(drawing.root)
    return ElementTree.tostring(drawing.root, encoding="unicode") + "\n"


def from_xml(text: str, functions: Functions = ex.FUNCTIONS) -> Node:
    """Return the expression of a document; raises AlgebraError if it is no such automaton."""
    if len(text) > _LARGEST or "<!DOCTYPE" in text:
        raise AlgebraError("an automaton is a document without DOCTYPE of at most 10 MB")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise AlgebraError(f"this is no XML document: {error}") from None
    states, edges = root.findall("state"), root.findall("forward")
    if len(states) > _MOST_STATES or len(edges) > _MOST_EDGES:
        raise AlgebraError(f"an automaton has at most {_MOST_STATES} states, {_MOST_EDGES} edges")
    if not states:
        raise AlgebraError("an automaton has at least two states")
    try:
        return _Reading(states, edges, functions).into(states[-1].attrib["name"])
    except (KeyError, ValueError, IndexError) as error:
        raise AlgebraError(f"the automaton is not well-formed: {error}") from None
    except RecursionError:
        raise AlgebraError("the automaton's expressions are nested too deeply") from None


class _Unary(NamedTuple):
    """A selection, and above it a projection to named columns; None: there is no projection."""

    predicate: ex.Expression = ex.TRUE
    columns: tuple[tuple[str, ex.Expression], ...] | None = None


# -- writing -------------------------------------------------------------------------------


class _Drawing:
    def __init__(self, literals: Sequence[Any]) -> None:
        self.root = Element("automaton", version="1")
        self.edges: list[Element] = []
        self._literals = literals
        self._names = (f"q{number}" for number in count())

    def enter(self, node: Node, target: str, after: _Unary) -> None:
        """Write the states and edges of a node before the state ``target``.

        ``after`` applies to the rows on the edge into that state.
        """
        node, after = _below_unary(node, after)
        if isinstance(node, Union):
            self.enter(node.left, target, after)
            self.enter(node.right, target, after)
            return
        name = next(self._names)
        state = SubElement(self.root, "state", name=name)
        match node:
            case Stream():
                self._wait(state, node.schema, node)
            case algebra.Sequence(left, right, predicate):
                self._wait(state, left.schema, right, predicate)
            case Iterate(_, right, predicate, longest=False):
                self._wait(state, node.schema, right, predicate)
                self._rebind(state, node)
            case _:
                kind = type(node).__name__
                raise AlgebraError(f"{kind} is not part of an automaton", hint="publish it first")
        edge = Element("forward", {"from": name, "to": target})
        self._unary(edge, after)
        self.edges.append(edge)
        if not isinstance(node, Stream):
            self.enter(node.left, name, _Unary())

    def _wait(
        self, state: Element, schema: Schema, right: Node, filter: ex.Expression | None = None
    ) -> None:
        """Write the schema, the right input and the edge of ``filter``, if any, into ``state``."""
        _add_schema(state, schema)
        stream, after = _below_unary(right, _Unary())
        if not isinstance(stream, Stream):
            raise AlgebraError(
                "the expression is not linear-plus: its right side is no stream",
                hint="publish the right side and read it by name (resubscription)",
            )
        input = SubElement(state, "input", stream=stream.name)
        _add_schema(input, stream.schema)
        self._unary(input, after)
        if filter is not None:
            SubElement(state, "filter", negated="yes").append(self._expression(filter))

    def _rebind(self, state: Element, node: Iterate) -> None:
        rebind = SubElement(state, "rebind")
        rebind.append(self._expression(node.rebind))
        added = slice(len(node.schema) - len(node.aggregates), None)
        names, kinds = node.schema.names[added], node.schema.types[added]
        for name, expression, kind in zip(names, node.aggregates, kinds, strict=True):
            aggregate = SubElement(rebind, "aggregate", name=name, type=kind.__name__)
            aggregate.append(self._expression(expression))

    def _unary(self, parent: Element, unary: _Unary) -> None:
        SubElement(parent, "predicate").append(self._expression(unary.predicate))
        if unary.columns is not None:
            columns = SubElement(parent, "map")
            for name, column in unary.columns:
                SubElement(columns, "attribute", name=name).append(self._expression(column))

    def _expression(self, node: ex.Expression) -> Element:
        """Return an expression as an XML element."""
        if isinstance(node, ex.Constant):
            return _constant(node.value)
        if isinstance(node, ex.Parameter):
            return _constant(self._literals[node.index])
        kind = type(node).__name__
        form = _FORMS.get(kind.lower())
        if form is None:
            raise AlgebraError(f"{kind} is not part of an automaton", hint="publish it first")
        attributes = {name: str(getattr(node, name)) for name in form.attributes}
        element = Element(kind.lower(), attributes)
        element.extend([self._expression(operand) for operand in operands(node, "Expression")])
        return element


def _below_unary(node: Node, after: _Unary) -> tuple[Node, _Unary]:
    """Return the input below a chain of selections and projections, and one step for the chain.

    The step is that of the chain followed by ``after``.
    """
    while isinstance(node, Select | Project):
        if isinstance(node, Select):
            both = node.predicate, after.predicate
            whole = both[0] if after.predicate == ex.TRUE else ex.And(both)
            after = after._replace(predicate=whole)
        else:
            places = {(2, place): column for place, column in enumerate(node.columns)}
            named = tuple(zip(node.schema.names, node.columns, strict=True))
            if after.columns is not None:
                named = tuple([(name, ex.moved(one, places)) for name, one in after.columns])
            after = _Unary(ex.moved(after.predicate, places), named)
        node = node.source
    return node, after


def _add_schema(parent: Element, schema: Schema) -> None:
    element = SubElement(parent, "schema")
    for name, kind in zip(schema.names, schema.types, strict=True):
        SubElement(element, "attribute", name=name, type=kind.__name__)


def _constant(value: Any) -> Element:
    if value is None:
        return Element("constant", type="null")
    element = Element("constant", type=type(value).__name__)
    if isinstance(value, str | BoundedDecimal):
        element.text = str(value)
    elif type(value) is int and value.bit_length() > 64:
        element.text = hex(value)  # Python limits the decimal digits of an int in a text
    else:
        element.text = written(value)
    if type(value) not in TYPES or _LOST.search(element.text):
        raise AlgebraError(f"an XML document cannot have the constant {shown(value)}")
    return element


# -- reading -------------------------------------------------------------------------------


class _Reading:
    """Makes algebra from the states and edges of an AIR document.

    The node of a state is made once, for all edges that leave the state.
    """

    def __init__(
        self, states: Sequence[Element], edges: Sequence[Element], functions: Functions
    ) -> None:
        self._functions = functions
        self._states = {state.attrib["name"]: state for state in states}
        if len(self._states) < len(states):
            raise AlgebraError("two states of the automaton have the same name")
        self._edges: dict[str, list[tuple[str, _Unary]]] = {}
        for edge in edges:
            source, target = edge.attrib["from"], edge.attrib["to"]
            for name in (source, target):
                if name not in self._states:
                    raise AlgebraError(f"an edge names the state {name}, which is not there")
            self._edges.setdefault(target, []).append((source, _read_unary(edge)))
        self._made: dict[str, Node | None] = {}  # by state; None while it is being made

    def into(self, target: str) -> Node:
        """Return the union of the expressions that the edges into the state ``target`` carry."""
        if target in self._made:
            made = self._made[target]
            if made is None:
                raise AlgebraError(f"the state {target} leads to itself")
            return made
        edges = self._edges.get(target, [])
        if not edges:
            raise AlgebraError(f"no edge leads to the state {target}")
        self._made[target] = None
        node: Node = reduce(algebra.union, (self._carried(*edge) for edge in edges))
        self._made[target] = node
        return node

    def _carried(self, source: str, unary: _Unary) -> Node:
        """Return the expression of the rows that the state ``source`` sends along an edge.

        ``unary`` is the selection and the projection on that edge.
        """
        state, functions = self._states[source], self._functions
        input, filter, rebind = (state.find(tag) for tag in ("input", "filter", "rebind"))
        if input is None:
            raise AlgebraError(f"the state {source} reads no stream")
        stream = Stream(input.attrib["stream"], _read_schema(input))
        node = self._applied(stream, _read_unary(input))
        if filter is not None and rebind is None:
            node = algebra.sequence(self.into(source), node, _read(filter[0]), functions)
        elif filter is not None and rebind is not None:
            aggregates = [
                (one.attrib["name"], _read(one[0]), _type_of(one))
                for one in rebind.findall("aggregate")
            ]
            parts = _read(filter[0]), _read(rebind[0])
            node = algebra.iterate(self.into(source), node, *parts, aggregates, functions)
        return self._applied(node, unary)

    def _applied(self, node: Node, unary: _Unary) -> Node:
        if unary.predicate != ex.TRUE:
            node = algebra.select(node, unary.predicate, self._functions)
        if unary.columns is None:
            return node
        return algebra.project(node, unary.columns, self._functions)


def _read_schema(element: Element) -> Schema:
    found = element.findall("schema/attribute")
    return Schema(tuple([one.attrib["name"] for one in found]), tuple(map(_type_of, found)))


def _type_of(element: Element) -> type:
    return _TYPES[element.attrib["type"]]


def _read_unary(element: Element) -> _Unary:
    predicate, columns = element.find("predicate"), element.find("map")
    return _Unary(
        ex.TRUE if predicate is None else _read(predicate[0]),
        None
        if columns is None
        else tuple([(column.attrib["name"], _read(column[0])) for column in columns]),
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
    """Return a reader of the attribute ``name``, which has one of the ``known`` values."""
    by_text = {str(one): one for one in known}

    def read(text: str) -> Any:
        if text not in by_text:
            raise ValueError(f"{name}={text!r} is none of {' '.join(by_text)}")
        return by_text[text]

    return read


class _Form(NamedTuple):
    """A kind of expression as XML: the readers of its attributes by name, and `number` of operands.

    Without a `number` it may have any number of operands.
    """

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
}  # by the name of the expression's class in lower case
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
