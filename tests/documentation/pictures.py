"""The pictures of the documentation that need no browser: `python -m tests.documentation.pictures`.

`tests.xscl.web.pictures` takes those of the page.
"""

from __future__ import annotations

from collections.abc import Mapping

import xscl
from tests.project import ROOT
from xscl.drawing.plans import draw_plan
from xscl.drawing.queries import draw_query
from xscl.drawing.svg import Picture
from xscl.planning.compile import compile_query

IMAGES = ROOT / "docs" / "images"
JOIN = (
    "S//book[./author->a][./title->t] FOLLOWED BY{a = b AND t = u, 30 d}"
    " S//blog[./author->b][./title->u]"
)
CHAIN = (
    "news//item->a[./title->t] FOLLOWED BY{t = u, 3 d} blogs//item->b[./title->u]"
    " NOT FOLLOWED BY{u = v, 2 d} corrections//item->c[./title->v]"
)


def plan() -> Picture:
    """Draw the plan of a chain that ends with an absence."""
    with xscl.Engine() as engine:
        engine.subscribe("uncorrected", CHAIN)
        return draw_plan(engine.plan())


def join_graph() -> Picture:
    """Draw the join graph of a query, as `xscl explain --svg` does."""
    return draw_query(compile_query(JOIN))


def pictures() -> Mapping[str, str]:
    """Return the pictures by the names of their files."""
    return {
        "join-graph.svg": join_graph().svg(alone=True) + "\n",
        "plan.svg": plan().svg(alone=True) + "\n",
    }


if __name__ == "__main__":
    for name, drawn in pictures().items():
        (IMAGES / name).write_text(drawn, "utf-8")
