"""The plan: its picture, and its nodes as a table."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from xscl.drawing import draw_plan
from xscl.drawing.plans import MOST, largest, rate
from xscl.web.page_request import AskedByOperator
from xscl.web.problems import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/plan")
def plan(asked: AskedByOperator) -> HTMLResponse:
    """Show the plan; of a large one the largest part."""
    graph = asked.here.engine.plan().renamed(asked.here.accounts.called)
    caption = (
        "From the streams, on the left, to what finds matches; rates are those of the last minute."
    )
    if len(graph.nodes) > MOST:
        caption = f"The {MOST} largest of {len(graph.nodes):,} nodes."
    nodes = sorted(largest(graph).nodes, key=lambda node: (-node.rate, -node.rows, -node.operators))
    drawn = draw_plan(graph)
    return asked.page(
        "plan.html", graph=graph, nodes=nodes, drawn=drawn, rate=rate, caption=caption
    )
