"""The plan: its picture, and its nodes as a table."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from xscl.drawing import draw_plan
from xscl.drawing.plans import MOST, largest, rate, shares
from xscl.service.subscribing import existing
from xscl.web.page_request import AskedByOperator, PageRequest
from xscl.web.problems import PageRoute
from xscl.web.views.matches import names_of_subscriptions

_NODE = re.compile(r"\b(?:template \d+|\w+#\d+)\b")
"""The names of nodes in an explanation."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/plan")
def plan(
    asked: AskedByOperator,
    subscription: Annotated[str, Query(max_length=500)] = "",
    template: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
) -> HTMLResponse:
    """Show the plan, of a large one the largest part, with the path of a subscription marked.

    With a `template` also how its joins are evaluated, in SQL.
    """
    path = _path(asked, subscription) if subscription else set[str]()
    graph = asked.here.engine.plan().renamed(asked.here.accounts.called)
    caption = (
        "From the streams, on the left, to what finds matches; rates are those of the last minute."
    )
    if len(graph.nodes) > MOST:
        caption = f"The {MOST} largest of {len(graph.nodes):,} nodes."
    nodes = sorted(largest(graph).nodes, key=lambda node: (-node.rate, -node.rows, -node.operators))
    drawn = draw_plan(graph, path)
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
        subscriptions=names_of_subscriptions(asked),
    )


def _explained(asked: PageRequest, template: int) -> str:
    """Return how a subscription of a template is evaluated, with its SQL; empty if it has none."""
    with asked.here.reading() as store:
        rows = store.fetch(
            "SELECT name FROM state.subscription WHERE template = ? ORDER BY number LIMIT 1",
            [template],
        )
    return asked.here.engine.explain(rows[0][0], sql=True) if rows else ""


def _path(asked: PageRequest, name: str) -> set[str]:
    """Return the nodes that evaluate a subscription, as `explain` names them; Problem 404."""
    found = existing(asked.here, asked.who, name)
    explained = asked.here.engine.explain(found.name)
    return {*map(asked.here.accounts.called, found.reads), *_NODE.findall(explained)}
