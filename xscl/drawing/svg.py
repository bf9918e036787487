"""A picture as SVG: elements with classes, and escaped text.

Elements are lxml's, which escapes their content on output.  Widths of
labels are estimated: they are set in a fixed-width face of 12 units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

NAMESPACE = "http://www.w3.org/2000/svg"
_PREFIXES: Any = {None: NAMESPACE}  # lxml's type stubs know no default namespace
_LINK = f"{{{NAMESPACE}}}a"
CHARACTER = 7.3
"""The width of a character of a label."""
LINE = 18.0
"""The height of a line of text."""
SMALL = 500.0
"""Pictures up to this width may be made smaller where there is less room: they stay readable."""

STYLE = """
svg { background: #fff; font: 12px ui-monospace, "DejaVu Sans Mono", monospace }
.d-text { fill: #1c2330 } .d-soft { fill: #5a6473 }
.d-strong { fill: #1c2330; font-weight: 600 }
.d-side { fill: #f6f7f9; stroke: #d5dae2 } .d-node { fill: #fff; stroke: #7c8798 }
.d-output { fill: #e5f3f1; stroke: #0b6e63 } .d-sign { fill: #fff; stroke: #0b6e63 }
.d-faint { fill: none; stroke: #b4bcc8; stroke-dasharray: 4 3 }
.d-tree { fill: none; stroke: #b4bcc8 } .d-flow { fill: none; stroke: #7c8798 }
.d-edge, .d-line { fill: none; stroke: #0b6e63; stroke-width: 1.6 }
.d-arrow { fill: #7c8798 } .d-bar { fill: #0b6e63 } .d-none { fill: #d5dae2 }
.d-bad { fill: #a6261d }
.d-chosen { fill: #fbe6c6; stroke: #8a5a00 } .d-area { fill: #e5f3f1 }
.d-mark { fill: #0b6e63 } .d-grid { stroke: #d5dae2 }
@media (prefers-color-scheme: dark) {
svg { background: #12161d } .d-text, .d-strong { fill: #e4e8ee } .d-soft { fill: #9aa5b4 }
.d-side { fill: #1a2029; stroke: #323b48 } .d-node { fill: #12161d; stroke: #7c8798 }
.d-output { fill: #12332f; stroke: #4fc3b2 } .d-faint, .d-tree { stroke: #4a5564 }
.d-edge, .d-line { stroke: #4fc3b2 } .d-sign { fill: #12161d; stroke: #4fc3b2 }
.d-bar { fill: #4fc3b2 } .d-none { fill: #323b48 }
.d-bad { fill: #ff9d92 } .d-area { fill: #12332f }
.d-chosen { fill: #4b370d; stroke: #f0be63 } .d-mark { fill: #4fc3b2 } .d-grid { stroke: #323b48 } }
"""
"""The style of a picture in a file, for the classes that a page's style sheet defines."""


@dataclass(frozen=True)
class Picture:
    """A picture: its elements, its size, and its description."""

    title: str
    width: float
    height: float
    elements: tuple[etree._Element, ...]

    def svg(self, *, alone: bool = False) -> str:
        """Return the picture's text; a stand-alone picture includes a style."""
        size = {"width": f"{self.width:.0f}", "height": f"{self.height:.0f}"}
        root = etree.Element(
            f"{{{NAMESPACE}}}svg",
            {"viewBox": f"0 0 {self.width:.0f} {self.height:.0f}", "role": "img", **size},
            nsmap=_PREFIXES,
        )
        if any(one.tag == _LINK for one in self.elements):
            root.set("role", "group")  # what is in an image has no roles of its own
            root.set("aria-label", printable(self.title))
        if self.width <= SMALL:
            root.set("class", "d-small")
        root.append(element("title", self.title))
        if alone:
            root.append(element("style", STYLE))
        root.extend(self.elements)
        return etree.tostring(root, encoding="unicode")


def element(name: str, content: str = "", **attributes: object) -> etree._Element:
    """Return an element; `class_` is its class, floats are written with one decimal."""
    made = etree.Element(f"{{{NAMESPACE}}}{name}")
    for key, value in attributes.items():
        written = f"{value:.1f}" if isinstance(value, float) else str(value)
        made.set(key.rstrip("_").replace("_", "-"), written)
    if content:
        made.text = printable(content)
    return made


def printable(text: str) -> str:
    """Return a text with a replacement for each character that XML does not permit."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def text(
    x: float, y: float, content: str, kind: str = "text", anchor: str = "start"
) -> etree._Element:
    """Return a line of text in the class `d-<kind>`; x is its beginning, middle or end (anchor)."""
    return element("text", content, x=x, y=y, class_=f"d-{kind}", text_anchor=anchor)


def box(
    x: float, y: float, width: float, height: float, kind: str, radius: float = 6
) -> etree._Element:
    """Return a rectangle with round corners."""
    sides = {"x": x, "y": y, "width": width, "height": height}
    place: dict[str, Any] = {name: float(value) for name, value in sides.items()}
    return element("rect", **place, rx=radius, class_=f"d-{kind}")


def line(points: Sequence[tuple[float, float]], kind: str) -> etree._Element:
    """Return a line through points."""
    written = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=written, class_=f"d-{kind}")


def curve(start: tuple[float, float], end: tuple[float, float], kind: str) -> etree._Element:
    """Return a curve that is horizontal at its start and at its end."""
    (x0, y0), (x1, y1) = start, end
    middle = (x0 + x1) / 2
    path = f"M{x0:.1f} {y0:.1f} C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    return element("path", d=path, class_=f"d-{kind}")


def shortened(content: str, most: int) -> str:
    """Return a text with white space collapsed, cut to `most` characters with an ellipsis."""
    flat = " ".join(content.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def length(content: str) -> float:
    """Return the estimated width of a label."""
    return len(content) * CHARACTER
