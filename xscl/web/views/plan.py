"""The plan: its picture, and its nodes as a table."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Response

from xscl.drawing.plans import MOST, draw_plan, largest, rate, shares
from xscl.service.problems import Problem
from xscl.service.subscribing import existing
from xscl.store.queries.rows import rows_of
from xscl.web.pages import AskedByOperator, PageRequest, router
from xscl.web.views.matches import names_of_subscriptions

_NODE = re.compile(r"\b(?:template \d+|\w+#\d+)\b")
"""The name of a node in an explanation."""

SHOWN = 50
"""Maximum number of names of subscriptions that share a node."""


@router.get("/plan")
def plan(
    asked: AskedByOperator,
    subscription: Annotated[str, Query(max_length=500)] = "",
    template: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    node: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show the plan, or its `MOST` largest nodes; `subscription` marks the nodes of one.

    `node` shows also the time, the state and the subscriptions of a node, `template` the SQL that
    evaluates the joins of a template.
    """
    path = _path(asked, subscription) if subscription else set[str]()
    engine = asked.app.engine
    stored = engine.plan()
    graph = stored.renamed(asked.app.accounts.users.called)
    chosen = None
    if node:
        pairs = zip(stored.nodes, graph.nodes, strict=True)
        chosen = next((pair for pair in pairs if pair[1].name == node), None)
        if chosen is None:
            raise Problem("not_found", f"the plan has no node {node!r} any more")
        path = {node}
    caption = (
        "From the streams, on the left, to what finds matches; rates are those of the last minute."
    )
    if len(graph.nodes) > MOST:
        caption = f"The {MOST} largest of {len(graph.nodes):,} nodes."
    nodes = sorted(largest(graph).nodes, key=lambda node: (-node.rate, -node.rows, -node.operators))
    drawn = draw_plan(graph, path, address_of)
    used = None if chosen is None else engine.queries.plan_users(chosen[0], SHOWN)
    return asked.page(
        "plan.html",
        graph=graph,
        nodes=nodes,
        drawn=drawn,
        rate=rate,
        caption=caption,
        subscription=subscription,
        path=path,
        share=shares(graph),
        shown_template=template,
        explained=_explained(asked, template) if template else "",
        node=None if chosen is None else chosen[1],
        used=used,
        called=asked.app.accounts.users.called,
        address_of=address_of,
        subscriptions=names_of_subscriptions(asked),
    )


def address_of(node: str) -> str:
    """Return the address of the page's part about a node of the plan."""
    return f"/plan?{urlencode({'node': node})}#node"


def _explained(asked: PageRequest, template: int) -> str:
    """Return the explanation, with SQL, of the first subscription of a template; "" of none."""
    with asked.app.store() as store:
        rows = rows_of(store, "subscription", "name", order="number", template=template)
    first = next(rows, None)
    return "" if first is None else asked.app.engine.explain(first["name"], sql=True)


def _path(asked: PageRequest, name: str) -> set[str]:
    """Return the names of a subscription's streams and nodes in the plan; raises Problem 404."""
    found = existing(asked.app, asked.account, name)
    explained = asked.app.engine.explain(found.name)
    return {*map(asked.app.accounts.users.called, found.reads), *_NODE.findall(explained)}
