"""The oracle's patterns: libxml2 is an opinion on what they select."""

from __future__ import annotations

import re
from itertools import product

from hypothesis import given
from lxml import etree

from tests.examples import examples
from tests.oracle.patterns import embeddings
from tests.oracle.queries import Case, blocks
from tests.oracle.steps import NAMESPACES, Block
from tests.oracle.trees import read
from tests.strategies.language import joins

# -- Patterns against libxml2 ----------------------------------------------------------------


def _xpath(block: Block) -> str:
    """Return the pattern in plain XPath 1.0: without variables and `*:name`."""
    text = re.sub(r"->[a-z0-9']+", "", block.step.text())
    return re.sub(r"\*:([a-z]+)", r"*[local-name()='\1']", text)


def _libxml2(xml: bytes, expression: str) -> list[int]:
    """Return the numbers of the nodes that libxml2 finds, numbered here once more.

    An empty CDATA section is taken out: XPath has no empty text nodes, libxml2 makes one of it.
    """
    root = etree.fromstring(xml.replace(b"<![CDATA[]]>", b""))
    order = [(e, k) for e in root.iter(etree.Element) for k in (None, *e.attrib)]
    numbers: dict[object, int] = {key: position for position, key in enumerate(order)}
    found = etree.XPath(expression, namespaces=NAMESPACES)(root.getroottree())
    assert isinstance(found, list)
    return sorted(
        numbers[(element, None)] for element in found if isinstance(element, etree._Element)
    )


@examples(30)
@given(case=joins())
def test_patterns_select_what_libxml2_selects(case: Case) -> None:
    parts = [block for one in case.subscriptions for block in blocks(one.query)]
    for block, doc in product(parts, case.documents):
        found = {last.number for last, _ in embeddings(read(doc.xml), block.step)}
        assert sorted(found) == _libxml2(doc.xml, _xpath(block))
