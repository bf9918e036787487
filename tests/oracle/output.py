"""Output documents by brute force: the XML of a match, from its composites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar, assert_never
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from tests.oracle.composites import Composite
from tests.oracle.patterns import embeddings
from tests.oracle.queries import Copy, Element, Query, blocks, bound
from tests.oracle.trees import Node, Text, string_value

K = TypeVar("K", int, str)


def nodes_of(
    query: Query, rows: Sequence[Composite]
) -> tuple[Mapping[int, list[Node]], Mapping[str, list[Node]]]:
    """Return the nodes of the main path of each component, and the nodes of each variable."""
    mains: dict[int, dict[int, Node]] = defaultdict(dict)
    found: dict[str, dict[int, Node]] = defaultdict(dict)
    parts = blocks(query.expression)
    for row in rows:
        for component, document in row.documents:
            step = parts[component].step
            fixed = {n: d[1].number for n, d in row.nodes.items() if n in set(bound(step))}
            for last, binding in embeddings(document.tree, step):
                if all(binding[name].number == value for name, value in fixed.items()):
                    mains[component][last.number] = last
                    for name, node in binding.items():
                        found[name][node.number] = node
    return _in_order(mains), _in_order(found)


def _in_order(found: Mapping[K, Mapping[int, Node]]) -> dict[K, list[Node]]:
    return {key: [nodes[number] for number in sorted(nodes)] for key, nodes in found.items()}


def document_of(query: Query, rows: Sequence[Composite]) -> str:
    """Return the output document of a match, given its composites."""
    mains, found = nodes_of(query, rows)
    if query.select is None:
        nodes = [node for component in sorted(mains) for node in mains[component]]
        return f"<result>{''.join(map(_copied, nodes))}</result>"
    return _constructed(query.select, found)


def _constructed(element: Element, found: Mapping[str, list[Node]]) -> str:
    parts = list[str]()
    for child in element.children:
        match child:
            case str():
                parts.append(escape(child))
            case Copy(variable, as_string=False):
                parts += [_copied(node) for node in found.get(variable, [])]
            case Copy(variable):
                parts += [escape(string_value(node)) for node in found.get(variable, [])[:1]]
            case Element():
                parts.append(_constructed(child, found))
            case _:
                assert_never(child)
    return f"<{element.name}>{''.join(parts)}</{element.name}>"


def _copied(part: Node | Text) -> str:
    """Return an element as XML, or the text of anything else."""
    if isinstance(part, Text):
        return escape(part.value)
    if part.attribute:
        return escape(string_value(part))
    spaces = dict[str, str]()
    name = _qualified(part.name, spaces)
    written = [
        f"{_qualified(attribute.name, spaces)}={quoteattr(string_value(attribute))}"
        for attribute in part.attributes
    ]
    declared = [f'xmlns:{prefix}="{uri}"' for uri, prefix in spaces.items()]
    inner = "".join(map(_copied, part.content))
    return f"<{' '.join([name, *declared, *written])}>{inner}</{name}>"


def _qualified(name: str, spaces: dict[str, str]) -> str:
    parsed = etree.QName(name)
    if parsed.namespace is None or name.startswith("{http://www.w3.org/XML/1998/namespace}"):
        return parsed.localname if parsed.namespace is None else f"xml:{parsed.localname}"
    return f"{spaces.setdefault(parsed.namespace, f'n{len(spaces)}')}:{parsed.localname}"
