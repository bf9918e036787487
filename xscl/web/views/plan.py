"""The plan: its picture, and its nodes as a table."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from xscl.drawing import draw_plan
from xscl.drawing.plans import MOST, largest, rate
from xscl.service.dependencies import Here, TheOperator
from xscl.web.problems import PageRoute
from xscl.web.rendering import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/plan")
def plan(request: Request, here: Here, who: TheOperator) -> HTMLResponse:
    """Show the plan; of a large one the largest part."""
    graph = here.engine.plan().renamed(here.accounts.called)
    caption = (
        "From the streams, on the left, to what finds matches; rates are those of the last minute."
    )
    if len(graph.nodes) > MOST:
        caption = f"The {MOST} largest of {len(graph.nodes):,} nodes."
    nodes = sorted(largest(graph).nodes, key=lambda node: (-node.rate, -node.rows, -node.operators))
    return page(
        request,
        "plan.html",
        who,
        graph=graph,
        nodes=nodes,
        drawn=draw_plan(graph),
        rate=rate,
        caption=caption,
    )
