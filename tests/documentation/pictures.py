"""The pictures of the documentation that need no browser: `python -m tests.documentation.pictures`.

`tests.xscl.web.pictures` takes those of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lxml import etree

import xscl
from tests.project import ROOT
from xscl.drawing.plans import draw_plan
from xscl.drawing.queries import draw_query
from xscl.drawing.svg import Picture, box, curve, element, line, text
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
_IN = (
    ("query text", ("language", "planning")),
    ("feeds, files, HTTP", ("polling", "spool")),
)
_STAGES = (
    ("1 shredding", "one automaton", "R_binW: nodes of blocks"),
    ("2 templates", "one query for a shape", "R_out: joined documents"),
    ("3 cep_core", "operators over time", "runs, absence, events"),
)
_OUT = ("page and feeds", "webhook, mail, file", "SQL and HTTP")


def pipeline() -> Picture:
    """Draw the way of a document from its source to those who subscribed."""
    return Picture("The stages of xscl", 1060, 232, tuple(_pipeline()))


def _pipeline() -> Iterator[etree._Element]:
    arrow = element(
        "marker",
        id="to",
        viewBox="0 0 8 8",
        refX=7,
        refY=4,
        markerWidth=7,
        markerHeight=7,
        orient="auto",
    )
    arrow.append(element("path", d="M0 0 L8 4 L0 8 z", class_="d-arrow"))
    definitions = element("defs")
    definitions.append(arrow)
    yield definitions
    for row, (name, steps) in enumerate(_IN):
        y = 30 + row * 104
        yield from _card(10, y, 150, name, steps)
        yield _arrow((160, y + 36), (206, 118))
    yield box(206, 14, 636, 204, "side")
    yield text(222, 36, "engine: one transaction for each push", "soft")
    for place, (name, *lines) in enumerate(_STAGES):
        x = 222 + place * 208
        yield from _card(x, 82, 188, name, lines)
        if place:
            yield _arrow((x - 20, 118), (x, 118))
    yield line([(732, 154), (732, 192), (524, 192), (524, 154)], "flow")
    yield text(628, 208, "results are documents, too", "soft", "middle")
    for row, name in enumerate(_OUT):
        y = 30 + row * 72
        yield box(886, y, 164, 40, "output")
        yield text(968, y + 25, name, "text", "middle")
        yield _arrow((842, 118), (886, y + 20))


def _card(
    x: float, y: float, width: float, name: str, lines: Sequence[str]
) -> Iterator[etree._Element]:
    yield box(x, y, width, 72, "node")
    yield text(x + width / 2, y + 22, name, "strong", "middle")
    for row, one in enumerate(lines):
        yield text(x + width / 2, y + 42 + row * 18, one, "soft", "middle")


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> etree._Element:
    drawn = curve(start, end, "flow")
    drawn.set("marker-end", "url(#to)")
    return drawn


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
        "pipeline.svg": pipeline().svg(alone=True) + "\n",
        "join-graph.svg": join_graph().svg(alone=True) + "\n",
        "plan.svg": plan().svg(alone=True) + "\n",
    }


if __name__ == "__main__":
    for name, drawn in pictures().items():
        (IMAGES / name).write_text(drawn, "utf-8")
