"""The papers' patterns over feed items, in XSCL: what they find in feeds made by hand.

S6 and S7 are those of Table 1 of "Towards Expressive Publish/Subscribe Systems" (2006), Examples 6
and 7 those of Hong 2009, section 3.1, with their formulas in Table 3.2; the four templates are
those of Table 4.3.  The matches stand beside the items that make them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import xscl
from xscl import Document

BLOGS = "./website = 'site1' or ./website = 'site2'"
"""The blogs that the user follows (the papers' θ3, and θ of Table 3.2)."""


def post(
    name: str, at: int, website: str, *, link: str = "", description: str = "", category: str = ""
) -> Document:
    """Return an item that came at a minute."""
    xml = (
        f"<item><website>{website}</website><category>{category}</category>"
        f"<link>{link}</link><description>{description}</description></item>"
    )
    return Document("Posts", name, at, xml.encode())


def found(query: str, items: Sequence[Document], lateness: int = 0) -> list[tuple[str, ...]]:
    """Return the documents of a query's matches, whether the items come one by one or at once."""
    alone, together = xscl.Engine(), xscl.Engine()
    with alone, together:
        for engine in (alone, together):
            engine.stream("Posts", lateness=lateness)
            engine.subscribe("q", query)
        one_by_one = [match for item in items for match in alone.push(item)]
        one_by_one.extend(alone.flush())
        at_once = [*together.push(items), *together.flush()]
        assert [match.id for match in at_once] == [match.id for match in one_by_one]
        assert [match.xml() for match in at_once] == [match.xml() for match in one_by_one]
        times = {item.id: item.timestamp for item in items}
        for match in at_once:
            assert match.t0 == min(times[document] for document in match.documents)
            assert match.t1 == max(times[document] for document in match.documents)
        return [match.documents for match in at_once]


# -- S6, Example 6: the first post that refers to an article -----------------------------------

S6 = f"""
SELECT <first of="{{l}}">{{r}}</first>
FROM Posts//item[./website = 'military.blog.com' and ./category = 'US troop morale'][./link->l]
  NEXT{{contains(d, l)}}
Posts//item[{BLOGS}][./description->d][./link->r]
"""
MORALE = [
    post("m1", 1, "military.blog.com", category="US troop morale", link="http://m/1"),
    post("a1", 2, "site3", description="see http://m/1"),  # not a blog that is followed
    post("b1", 3, "site2", description="about something else"),
    post("m2", 4, "military.blog.com", category="US troop morale", link="http://m/2"),
    post("m3", 5, "military.blog.com", category="food", link="http://m/3"),
    post("b2", 6, "site2", description="http://m/2 and http://m/1", link="http://b/2"),
    post("b3", 7, "site1", description="http://m/1 and http://m/2"),  # for neither the first
    post("b4", 8, "site1", description="see http://m/3"),  # an article on food
]


def test_s6() -> None:
    assert found(S6, MORALE) == [("m1", "b2"), ("m2", "b2")]


def test_s6_makes_documents() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("s6", S6)
        made = [match.xml() for match in (*engine.push(MORALE), *engine.flush())]
    assert made == [
        b'<first of="http://m/1"><link>http://b/2</link></first>',
        b'<first of="http://m/2"><link>http://b/2</link></first>',
    ]


def test_s6_in_event_time() -> None:
    """b2 comes last: within the lateness it is still the first; else it is too late."""
    reordered = [item for item in MORALE if item.id != "b2"] + [MORALE[5]]
    assert found(S6, reordered, lateness=2) == [("m1", "b2"), ("m2", "b2")]
    assert found(S6, reordered, lateness=1) == [("m1", "b3"), ("m2", "b3")]


def test_s6_with_simultaneous_references() -> None:
    """Both of them are the first; a post of the article's own minute is none."""
    items = [
        *MORALE[:2],
        post("c0", 1, "site1", description="http://m/1"),
        post("c1", 9, "site1", description="http://m/1"),
        post("c2", 9, "site2", description="http://m/1"),
        post("c3", 10, "site2", description="http://m/1"),
    ]
    assert found(S6, items) == [("m1", "c1"), ("m1", "c2")]


EXAMPLE_6 = f"""
Posts//item[./website = 'apple.com'][./link->l]
  NEXT{{contains(d, l)}}
Posts//item[{BLOGS}][./description->d]
"""


def test_example_6() -> None:
    items = [
        post("p1", 1, "apple.com", link="http://apple/1"),
        post("p2", 2, "apple.com", link="http://apple/2", description="http://apple/1"),
        post("n1", 3, "news", description="http://apple/1 http://apple/2"),
        post("b1", 4, "site1", description="new: http://apple/2"),
        post("b2", 5, "site2", description="http://apple/1, not http://apple/2"),
        post("b3", 6, "site1", description="http://apple/1"),
    ]
    assert found(EXAMPLE_6, items) == [("p2", "b1"), ("p1", "b2")]


# -- S7, Example 7: references to references ----------------------------------------------------

S7 = f"""
Posts//item[{BLOGS}][contains(./description, 'XYZ')][./link->l]
  FOLD{{contains($2.d, $.l)}}
Posts//item[{BLOGS}][./description->d][./link->l]
"""
CHAIN = [
    post("x1", 1, "site1", description="about XYZ", link="L1"),
    post("x2", 2, "site2", description="refers to L1", link="L2"),
    post("x3", 3, "site3", description="refers to L2", link="L3"),  # a blog that nobody follows
    post("x4", 4, "site1", description="refers to L2", link="L4"),
    post("x5", 5, "site2", description="refers to L2", link="L5"),  # L4 is the last one now
    post("x6", 6, "site2", description="XYZ by L4", link="L6"),  # begins a chain of its own, too
    post("x7", 7, "site1", description="refers to L6", link="L7"),
]


def test_s7() -> None:
    assert found(S7, CHAIN) == [
        ("x1", "x2"),
        ("x1", "x4"),
        ("x1", "x6"),
        ("x1", "x7"),
        ("x6", "x7"),
    ]


def test_s7_goes_on_from_each_of_simultaneous_references() -> None:
    items = [
        CHAIN[0],
        post("y2", 2, "site1", description="L1", link="M2"),
        post("y3", 2, "site2", description="L1", link="M3"),
        post("y4", 3, "site2", description="M3", link="M4"),
        post("y5", 4, "site2", description="M2 and M4", link="M5"),
    ]
    assert found(S7, items) == [
        ("x1", "y2"),
        ("x1", "y3"),
        ("x1", "y4"),
        ("x1", "y5"),  # the one match of two chains, over y2 and over y4
    ]


EXAMPLE_7 = """
Posts//item[./website = 'ThinkSecret.com'][contains(./description, 'Apple rumor')][./link->l]
  FOLD{contains($2.d, $.l)}
Posts//item[./description->d][./link->l]
"""
FORWARDED = """
SELECT <hop n="{n}">{string(l)}</hop>
FROM Posts//item[./website = 'ThinkSecret.com'][contains(./description, 'Apple rumor')][./link->l_1]
  FOLD{contains($2.d, $1.l_1) OR contains($2.d, $.l), 1 = 1, $.n + 1 AS n}
Posts//item[./description->d][./link->l]
"""
RUMOR = [
    post("t0", 1, "elsewhere", description="Apple rumor", link="T0"),
    post("t1", 2, "ThinkSecret.com", description="An Apple rumor", link="T1"),
    post("t2", 3, "a", description="T0 and nothing else", link="T2"),
    post("t3", 4, "b", description="T1, wow", link="T3"),
    post("t4", 5, "c", description="T1 again", link="T4"),
    post("t5", 6, "d", description="T3 says so", link="T5"),
    post("t6", 7, "e", description="T4 says so", link="T6"),
    post("t7", 8, "f", description="T5 says so", link="T7"),
]


def test_example_7_as_its_formula_in_table_3_2() -> None:
    """Each posting refers to the one before it by `link.last`."""
    assert found(EXAMPLE_7, RUMOR) == [("t1", "t3"), ("t1", "t5"), ("t1", "t7")]


def test_example_7_with_direct_references() -> None:
    """Direct references go on, too; t5 refers to t3, which is not the last one any more."""
    assert found(FORWARDED, RUMOR) == [("t1", "t3"), ("t1", "t4"), ("t1", "t6")]
    with xscl.Engine() as engine:
        engine.subscribe("ex7", FORWARDED)
        made = [match.xml() for match in (*engine.push(RUMOR), *engine.flush())]
    assert made == [b'<hop n="1">T3</hop>', b'<hop n="2">T4</hop>', b'<hop n="3">T6</hop>']


# -- Table 4.3 -----------------------------------------------------------------------------------

W, X = "w1", 50
SPAN = 100  # "the duration constraint of each query" (section 4.6.3)


def article(name: str, at: int, website: str, channel: str, popularity: int) -> Document:
    """Return an item as the paper's preprocessor leaves it, with its time as an element."""
    xml = (
        f"<item><website>{website}</website><channel>{channel}</channel>"
        f"<popularity>{popularity}</popularity><time>{at}</time></item>"
    )
    return Document("Posts", name, at, xml.encode())


ITEM = f"Posts//item[website = '{W}'][popularity > {X}]"
STATELESS = ITEM
CONCATENATION = f"""
{ITEM}[./time->t]
  NEXT {ITEM}
  NEXT{{u - t < {SPAN}}} {ITEM}[./time->u]
"""
ANY = f"Posts//item[website = '{W}'][./channel->c][./popularity->p][./time->t]"
PARAMETERIZATION = f"""
{ANY}
  NEXT{{d = c AND number(q) > number(p)}}
Posts//item[website = '{W}'][./channel->d][./popularity->q]
  NEXT{{e = d AND number(r) > number(q) AND u - t < {SPAN}}}
Posts//item[website = '{W}'][./channel->e][./popularity->r][./time->u]
"""
ITERATION = f"""
{ANY}
  FOLD{{$2.d = $1.c AND number($2.p) > number($.p) AND $2.u - $1.t < {SPAN}}}
Posts//item[website = '{W}'][./channel->d][./popularity->p][./time->u]
"""
ARTICLES = [
    article("i1", 1, W, "sport", 60),
    article("i2", 2, W, "news", 9),
    article("i3", 3, "w2", "sport", 99),
    article("i4", 4, W, "sport", 55),
    article("i5", 5, W, "news", 10),  # more than 9 as a number, though not as a text
    article("i6", 6, W, "sport", 70),
    article("i7", 7, W, "news", 100),
    article("i8", 104, W, "sport", 80),
    article("i9", 105, W, "sport", 90),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (STATELESS, "i1 / i4 / i6 / i7 / i8 / i9"),
        # i6 i7 i8 and i7 i8 i9 span 99 ticks, both ends counted; i8 and i9 have no two after them
        (CONCATENATION, "i1 i4 i6 / i4 i6 i7 / i6 i7 i8 / i7 i8 i9"),
        # sport rises from 60 and from 55 to 70, and on to 80 when 100 ticks and more are over
        (PARAMETERIZATION, "i2 i5 i7 / i6 i8 i9"),
        # a run may end anywhere, and each item begins one
        (ITERATION, "i2 i5 / i1 i6 / i4 i6 / i2 i7 / i5 i7 / i6 i8 / i6 i9 / i8 i9"),
    ],
    ids=["Stateless", "Concatenation", "Parameterization", "Iteration"],
)
def test_table_4_3(query: str, expected: str) -> None:
    assert found(query, ARTICLES) == [tuple(part.split()) for part in expected.split(" / ")]


# -- The order of texts ------------------------------------------------------------------------

FORMS = {  # with a value of the later document, and a text
    "JOIN": "a//v->u JOIN{{{test}, 9}} b//w->v",
    "FOLLOWED BY": "a//v->u FOLLOWED BY{{{test}, 9}} b//w->v",
    "NEXT": "a//v->u NEXT{{{test}}} b//w->v",
    "NOT FOLLOWED BY": "a//v->u NOT FOLLOWED BY{{{test}, 9}} b//w->v",
}
ORDERS = {'v < "m"': False, '"m" <= v': True, 'v > "m"': True, '"m" >= v': False}


@pytest.mark.parametrize("operator", FORMS)
@pytest.mark.parametrize("test", ORDERS)
def test_a_value_is_compared_with_a_text_in_each_operator(operator: str, test: str) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", FORMS[operator].format(test=test))
        engine.push(
            [
                xscl.Document("a", "1", 1, b"<r><v>x</v></r>"),
                xscl.Document("b", "2", 2, b"<r><w>n</w></r>"),
            ]
        )
        engine.flush()
        assert bool(len(engine.matches("q"))) == (ORDERS[test] != (operator == "NOT FOLLOWED BY"))
