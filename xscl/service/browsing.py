"""Documents that a user may see: in lists, and the nodes of one with the variables they bind.

The bindings of a document's nodes are those that are kept as join state (R_bin); a document that no
subscription needs any more has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from lxml import etree

from feeds.spool import Spool
from feeds.xml.xmlparse import parse
from xscl.client.answers import DocumentNode, Witness
from xscl.documents.document_ids import number_in
from xscl.engine.facade import Engine
from xscl.errors import DocumentError
from xscl.service.accounts import Account
from xscl.shredding.nodes import AttributeNode, DocumentTree, number_nodes, string_value
from xscl.store.queries.browsing import BrowsedDocument, DocumentPlace
from xscl.store.queries.documents import document_named
from xscl.subscriptions.match import MatchDocument


def part_of(one: BrowsedDocument, xml: bytes) -> MatchDocument:
    """Return a browsed document in the form of a match's document, with the tree of its text."""
    tree, version = number_nodes(parse(xml)), number_in(one.name)
    return MatchDocument(one.name, one.ts, tree, one.streams[0], one.id, version, one.feed_title)


def place_read(text: str, *, by_date: bool) -> DocumentPlace | None:
    """Return the place of a cursor `NUMBER` or, with `by_date`, `NUMBER.TICKS`; None for "".

    Raises ValueError.
    """
    number, _, ts = text.partition(".")
    if not text:
        return None
    return DocumentPlace(int(number), int(ts) if by_date else None)


def visible_names(account: Account, streams: Sequence[str]) -> list[str]:
    """Return the names without prefix of those engine streams that the user may see."""
    return [name for stream in streams if (name := account.visible(stream)) is not None]


def witness(engine: Engine, document: str, spool: Path) -> Witness:
    """Return the nodes of a document and the variables bound to them.

    The text is read from the engine or, if deleted there, from the spool.  Raises DocumentError if
    it is in neither.
    """
    document = engine.queries.find_document(document)
    text = engine.document(document)
    tree = number_nodes(parse(spooled(engine, document, spool) if text is None else text))
    bound = _bindings(engine, document)
    rows = (_row(tree, number, tuple(bound.get(number, ()))) for number in range(len(tree.items)))
    return Witness(document=document, nodes=tuple(rows))


def spooled(engine: Engine, document: str, directory: Path) -> bytes:
    """Return the text of an accepted document, by its name, from the spool; DocumentError."""
    with closing(engine.connect()) as store:
        known = document_named(store, document)
    if directory.is_dir():
        spool = Spool(directory, read_only=True)
        for number in reversed(spool.numbers(0)):
            for each in spool.read(number):
                if each.id == known["given"] and _hash(each.xml) == known["hash"]:
                    return each.xml
    raise DocumentError(
        f"the text of {document!r} is not kept any more: no subscription needs it",
        reason_code="text_dropped",
    )


def _hash(xml: bytes) -> bytes:
    """Return the content hash that distinguishes two versions in the table of documents."""
    return hashlib.blake2b(xml, digest_size=16).digest()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _bindings(engine: Engine, document: str) -> dict[int, list[str]]:
    """Return the definitions of the variables that are bound to nodes, by number of node."""
    literal = _literal(document)
    found = engine.queries.sql(
        f"SELECT node1 AS node, var1 AS variable FROM R_bin WHERE docid = {literal}"
        f" UNION SELECT node2, var2 FROM R_bin WHERE docid = {literal} ORDER BY ALL",
        document,
    )
    bound: dict[int, list[str]] = {}
    for row in found.to_pylist():
        bound.setdefault(row["node"], []).append(row["variable"])
    return bound


def _row(tree: DocumentTree, number: int, variables: tuple[str, ...]) -> DocumentNode:
    item = tree.items[number]
    if isinstance(item, AttributeNode):
        name, text = f"@{etree.QName(item.name).localname}", string_value(item)
    else:
        assert isinstance(item, etree._Element)
        prefix = f"{item.prefix}:" if item.prefix else ""
        name = prefix + etree.QName(item).localname
        text = "".join([item.text or "", *(child.tail or "" for child in item)])
    return DocumentNode(
        node=number,
        depth=_depth(tree, number),
        path=tree.path(number),
        name=name,
        text=text,
        variables=variables,
    )


def _depth(tree: DocumentTree, number: int) -> int:
    parent = tree.parents[number]
    return 0 if parent < 0 else 1 + _depth(tree, parent)
