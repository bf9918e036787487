"""Pictures of queries: what is drawn, and that a picture is well-formed and holds text only."""

from __future__ import annotations

import pytest
from lxml import etree

from xscl.drawing.queries import draw_query
from xscl.drawing.svg import NAMESPACE, printable
from xscl.planning.compile import compile_query
from xscl.web.gallery import cases

SVG = f"{{{NAMESPACE}}}"


def drawn(query: str, *, alone: bool = False) -> etree._Element:
    return etree.fromstring(draw_query(compile_query(query)).svg(alone=alone))


def texts(query: str) -> list[str]:
    return [each.text or "" for each in drawn(query).iter(f"{SVG}text")]


def test_both_sides_and_what_joins_them() -> None:
    found = texts("S//book[./title->t] FOLLOWED BY{t = u, 7 d} S//post[./title->u]")
    assert found == [
        "stream S",
        "book",
        "title → t",
        "stream S",
        "post",
        "title → u",
        "FOLLOWED BY",
        "1 w",
        "=",
    ]


def test_nodes_that_stage_1_settles_are_faint_and_those_of_the_match_filled() -> None:
    root = drawn("S//a[b][./k->x] JOIN{x = y, 1 h} S//c[./k->y][./l->z]")
    kinds = [each.get("class") for each in root.iter(f"{SVG}rect")]
    assert kinds.count("d-output") == 2
    assert kinds.count("d-faint") == 3


def test_a_condition_is_in_the_label_and_a_residual_below() -> None:
    found = texts(
        "S//a[contains(./t, 'x')]->p[./k->x] JOIN{x = y AND v > x + 1, 1 h} S//b[./k->y][./v->v]"
    )
    assert 'a[contains(./t, "x")] → p' in found
    assert any(text.startswith("tested on each candidate: ") for text in found)


def test_a_chain_has_a_band_for_each_join() -> None:
    found = texts(
        "S//a[./k->x] FOLLOWED BY{x = y, 1 h} S//b[./k->y] FOLLOWED BY{y = z, 1 h} S//c[./k->z]"
    )
    assert found.count("FOLLOWED BY") == 2
    assert "what came before" in found


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("S//a->x", "stream S"),
        ("S//a[./k->x] NEXT{x = y} S//b[./k->y]", "NEXT"),
        ("S//a[./k->x] NOT FOLLOWED BY{x = y, 1 h} S//b[./k->y]", "NOT FOLLOWED BY"),
        ("S//a[./k->x] FOLLOWED BY{x = y, 1 h} S//b[./k->y] ELSE", "... ELSE"),
    ],
)
def test_each_operator_has_its_name(query: str, name: str) -> None:
    assert name in texts(query)


def test_everything_of_the_gallery_is_within_its_picture() -> None:
    for case in cases():
        picture = draw_query(compile_query(case.query))
        root = etree.fromstring(picture.svg())
        for each in root.iter(f"{SVG}rect"):
            assert float(each.get("x", "")) + float(each.get("width", "")) <= picture.width


def test_w9_markup_in_a_query_is_text() -> None:
    root = drawn("S//a[k = '</text><script>x</script>']->x")
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (each.text or "") for each in root.iter(f"{SVG}text"))


def test_only_a_picture_that_stands_alone_has_a_style() -> None:
    assert not list(drawn("S//a").iter(f"{SVG}style"))
    assert list(drawn("S//a", alone=True).iter(f"{SVG}style"))
    assert drawn("S//a").find(f"{SVG}title") is not None


def test_what_xml_cannot_hold_is_replaced() -> None:
    assert printable("a\x00b\x1bc") == "a\ufffdb\ufffdc"
