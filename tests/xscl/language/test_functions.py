"""The functions of join predicates: tables of cases, and elementpath as a second opinion."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from random import Random
from typing import Any

import pytest
from elementpath import XPathContext
from elementpath.xpath31 import XPath31Parser
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cep_core.algebra.untyped import text_of
from cep_core.decimals import BoundedDecimal
from tests.examples import examples
from xscl.language.functions import FUNCTIONS, OPERANDS, TESTS, Value, canonical_url, number

NBSP = "\u00a0"


def apply(name: str, *texts: str) -> Value:
    value: Value = FUNCTIONS[name].apply(*texts)
    return value


# -- The table -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("text", ["", " ", "a", "3", "2013-03-19T10:00:00Z", "http://a.b/c"])
def test_a_function_returns_the_kind_that_it_says(name: str, text: str) -> None:
    function = FUNCTIONS[name]
    constants = {str: "x", float: 2.0}
    value = function.apply(text, *(constants[kind] for kind in function.arguments[1:]))
    number = (float, BoundedDecimal)
    kinds = number if function.result is float else (function.result,)
    assert value is None or type(value) in kinds


LONG = ("1", "&#1", "&#", "<p ", "<!--", "-", ".", "1e", "%4", "http://a/../", "[", "\u0665", "\0")


@pytest.mark.parametrize("name", [*OPERANDS, *TESTS])
@pytest.mark.parametrize(
    "before", ["", "&#", "http://", "http://a:", "http://[", "2013-03-19T", "P"]
)
def test_a_function_has_a_value_of_a_long_text_or_none(name: str, before: str) -> None:
    function = {**OPERANDS, **TESTS}[name]
    constants = {str: "x", float: 2.0, object: "x"}
    rest = [constants[kind] for kind in function.arguments[1 : 4 if function.constants else 2]]
    for piece in LONG:
        function.apply(before + piece * 5_000, *rest)


@pytest.mark.parametrize(
    ("name", "texts", "value"),
    [
        ("string", (" 3.0 ",), " 3.0 "),
        ("lower-case", ("ÀBc1",), "àbc1"),
        ("lower-case", ("ΟΔΟΣ",), "οδος"),
        ("upper-case", ("straße",), "STRASSE"),
        ("normalize-space", (" a \t\r\n b  ",), "a b"),
        ("normalize-space", (f"{NBSP} a{NBSP}{NBSP}b",), f"{NBSP} a{NBSP}{NBSP}b"),
        ("normalize-space", ("\n ",), ""),
        ("plain-text", (f"a&#{'9' * 5_000};b&#65;",), "a\ufffdbA"),
        ("substring-before", ("1999/04/01", "/"), "1999"),
        ("substring-before", ("1999", "/"), ""),
        ("substring-before", ("/1999", "/"), ""),
        ("substring-before", ("abc", ""), ""),
        ("substring-before", ("a--b--c", "--"), "a"),
        ("substring-after", ("1999/04/01", "/"), "04/01"),
        ("substring-after", ("1999", "/"), ""),
        ("substring-after", ("1999/", "/"), ""),
        ("substring-after", ("abc", ""), "abc"),
        ("substring-after", ("a--b--c", "--"), "b--c"),
        ("string-length", ("",), 0.0),
        ("string-length", ("a\U0001f600é",), 3.0),
        ("number", (" -3.50\n",), -3.5),
        ("number", (".5",), 0.5),
        ("number", ("5.",), 5.0),
        ("number", ("",), None),
        ("number", ("1e3",), 1000.0),
        ("number", ("+1",), 1.0),
        ("number", ("-INF",), -math.inf),
        ("floor", ("INF",), math.inf),
        ("abs", ("-INF",), math.inf),
        ("round", ("-INF",), -math.inf),
        ("number", ("Infinity",), None),
        ("number", (f"{NBSP}1",), None),
    ],
)
def test_strings_and_numbers(name: str, texts: tuple[str, ...], value: Value) -> None:
    assert apply(name, *texts) == value


# -- Dates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2013-03-19T10:00:00Z", (2013, 3, 19, 10)),
        ("2013-03-19T10:00:00.5+00:00", (2013, 3, 19, 10)),
        ("20130319T100000Z", (2013, 3, 19, 10)),
        ("Tue, 19 Mar 2013 10:59:59 GMT", (2013, 3, 19, 10)),
        ("19 Mar 13 10:00 +0000", (2013, 3, 19, 10)),
        ("Tue, 31 Dec 2013 22:30:00 -0500", (2013, 12, 31, 22)),
        ("2014-01-01T00:30:00+01:00", (2014, 1, 1, 0)),
        ("2012-02-28T24:00:00Z", (2012, 2, 29, 0)),
        ("1969-12-31T23:59:59Z", (1969, 12, 31, 23)),
        ("2013-03-19", (2013, 3, 19, None)),
        ("2013-03", (2013, 3, 1, None)),
        (" 2013\n", (2013, 1, 1, None)),
        ("19 March 2013", (2013, 3, 19, None)),
        ("2013-02-30", (None, None, None, None)),
        ("0001-01-01T00:00:00Z", (1, 1, 1, 0)),
        ("1970-01-01Z", (1970, 1, 1, None)),
        ("1999-12-31-05:00", (1999, 12, 31, None)),
        (" 1999-12-31T21:20:00-05:00 ", (1999, 12, 31, 21)),
        ("2026-02-28T24:00:00Z", (2026, 3, 1, 0)),
        ("9999-12-31T24:00:00Z", (None, None, None, None)),
        ("-0044-03-15", (-44, 3, 15, None)),
        ("12026-03-15T07:00:00", (12026, 3, 15, 7)),
        ("2026-03-15T07:00:00+15:00", (2026, 3, 15, 7)),
        ("Fri, 31 Dec 1999 21:20:00 EST", (1999, 12, 31, 21)),
        ("Fri, 31 Dec 1999 21:20 -0500", (1999, 12, 31, 21)),
        ("yesterday", (None, None, None, None)),
        ("", (None, None, None, None)),
    ],
)
def test_parts_of_dates(text: str, parts: tuple[int | None, ...]) -> None:
    assert dates(text) == parts


def dates(text: str) -> tuple[Value, ...]:
    names = ("year-from-date", "month-from-date", "day-from-date", "hours-from-dateTime")
    return tuple(apply(name, text) for name in names)


@given(st.datetimes(datetime(1901, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_parts_are_those_that_are_written_in_every_zone_and_spelling(
    moment: datetime, east: int
) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    local = moment.astimezone(timezone(timedelta(minutes=east)))
    parts = (local.year, local.month, local.day, local.hour)
    assert dates(local.isoformat()) == parts
    assert dates(format_datetime(local)) == parts


# -- Addresses -------------------------------------------------------------------------------

SAME = {
    "http://example.com/": (
        "http://example.com",
        "HTTP://Example.COM:80",
        " http://example.com/?\n",
        "http://example.com/#top",
        "http://example.com?utm_source=feed",
        "http://example.com./",
    ),
    "https://example.com/news/1?a=1&b=2": (
        "https://example.com:443/news/1?b=2&a=1",
        "https://example.com/news/1/?b=2&a=1",
        "https://example.com/x/../news/./1?a=1&b=2#comments",
        "https://example.com/news/1?fbclid=I0&b=2&utm_medium=rss&a=1&gclid=x&UTM_CAMPAIGN=y",
        "https://example.com/news/%31?a=1&&b=2",
    ),
    "https://example.com/News?A=1": ("https://EXAMPLE.com/News?A=1",),
    "http://xn--bcher-kva.example/%C3%A4": (
        "http://Bücher.example/ä",
        "http://xn--bcher-kva.example/%c3%a4/",
    ),
    "http://example.com:8080/a?b=%26c": ("http://example.com:8080/a/?b=%26c",),
    "http://[2001:db8::1]/": ("http://[2001:DB8::1]:80",),
    "http://example.com/?utm=1&utmost=2": ("http://example.com?utmost=2&utm=1",),
    "http://example.com/?t": ("http://example.com/?t#t",),
}


@pytest.mark.parametrize("canonical", SAME)
def test_one_spelling_stands_for_all(canonical: str) -> None:
    assert canonical_url(canonical) == canonical
    assert [canonical_url(url) for url in SAME[canonical]] == [canonical] * len(SAME[canonical])


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "example.com/a", "//example.com/a", "/a", "urn:uuid:1", "mailto:a@b.c"),
        *(
            "ftp://example.com/",
            "http:",
            "http://",
            "http:///a",
            "http:/a",
            "http://?a",
            "httpx://a",
        ),
        *(
            "http://a b/",
            "http://\u00b4/",
            "http://a%2eb/",
            "http://a.example:b/",
            "http://[::1",
            "http://[zz]/",
            "http://..",
            "see http://example.com/",
        ),
        *("http://" + "a" * 70 + ".example/", "http://a.example/" + "b" * 5_000),
    ],
)
def test_what_is_no_web_address_has_no_value(text: str) -> None:
    assert canonical_url(text) is None


HOSTS = st.sampled_from(("example.com", "b.example", "bücher.example", "[::1]", "a_b.example"))
SEGMENTS = st.text(st.sampled_from("ab. %1;é~+"), max_size=4)
PATHS = st.lists(SEGMENTS, max_size=3).map("/".join)
PARAMETERS = st.lists(st.sampled_from(("a=1", "b=2", "a", "c=%2f", "x=é", "q=a+b", "")), max_size=3)
TRACKERS = st.lists(st.sampled_from(("utm_source=x", "fbclid=1", "GCLID=2", "mc_cid", "utm_")))


@given(HOSTS, PATHS, PARAMETERS, TRACKERS, st.randoms(use_true_random=False))
def test_what_does_not_change_the_page_does_not_change_the_address(
    host: str, path: str, parameters: list[str], trackers: list[str], random: Random
) -> None:
    plain = f"http://{host}/{path}?{'&'.join(parameters)}"
    mixed = parameters + trackers
    random.shuffle(mixed)
    noisy = f"HTTP://{host.upper()}:80/{path}?{'&'.join(mixed)}#{path}"
    canonical = canonical_url(plain)
    assert canonical is not None
    assert canonical_url(noisy) == canonical
    assert canonical_url(canonical) == canonical


@given(st.text(), st.text(st.sampled_from("/?#:@[]%.&=;\\a1 \n\ud800é")))
def test_no_text_makes_it_fail_and_the_second_time_changes_nothing(text: str, odd: str) -> None:
    for rest in (text, odd):
        canonical = canonical_url(f"http://{rest}")
        if canonical is not None:
            assert canonical_url(canonical) == canonical


# -- String values of derived nodes ----------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        (" 3.0 ", " 3.0 "),
        (3.0, "3"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (-2.50, "-2.5"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (math.inf, "INF"),
        (-math.inf, "-INF"),
        (math.nan, None),
    ],
)
def test_the_string_value_of_a_derived_node(value: Value, text: str | None) -> None:
    assert text_of(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_canonical_form_of_a_number_reads_as_that_number(value: float) -> None:
    text = text_of(value)
    assert text is not None
    assert number(text) == value
    assert "e" not in text
    assert "." not in text or text[-1] not in ".0"


ZONES = ("", "Z", "+05:30", "-11:00")
TIMES = st.builds(
    lambda time, zone: f"{time.isoformat(timespec='milliseconds')}{zone}",
    st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)),
    st.sampled_from(ZONES),
)
DURATIONS = st.from_regex(
    r"-?P(?:[0-9]{1,4}D)?T[0-9]{1,4}H(?:[0-9]{1,3}M)?(?:[0-9]{1,3}S)?", fullmatch=True
)
XPATH = XPath31Parser(namespaces={"xs": "http://www.w3.org/2001/XMLSchema"})


def selected(expression: str, **variables: Any) -> Any:
    """Return the value of an expression in elementpath, whose times without a zone are in UTC."""
    context = XPathContext(etree.fromstring("<a/>"), variables=variables, timezone="Z")
    return XPATH.parse(expression).get_results(context)


@examples(20)
@given(one=TIMES, other=TIMES, length=DURATIONS)
def test_times_and_durations_are_those_of_xpath(one: str, other: str, length: str) -> None:
    """One that is near the bound decides nothing: elementpath rounds to microseconds."""
    begin, end = (OPERANDS["xs:dateTime"].apply(time) for time in (one, other))
    bound = OPERANDS["xs:dayTimeDuration"].apply(length)
    assert isinstance(begin, float)
    assert isinstance(end, float)
    assert isinstance(bound, float)
    ours = end - begin
    asked = f"xs:dateTime($b) - xs:dateTime($a) > xs:dayTimeDuration('{length}')"
    XPATH.variable_types = {"a": "xs:string", "b": "xs:string"}
    assert abs(ours - bound) < 1e-3 or selected(asked, a=one, b=other) is (ours > bound)


@examples(20)
@given(st.text("ab, ", max_size=8), st.sampled_from(("", ",", "[, ]", "a+")))
def test_tokenize_and_concat_are_those_of_xpath(text: str, pattern: str) -> None:
    XPATH.variable_types = {"a": "xs:string"}
    second = f", '{pattern}'" if pattern else ""
    ours: Any = OPERANDS["tokenize"].apply(text, pattern, "")
    assert list(ours) == selected(f"tokenize($a{second})", a=text)
    assert OPERANDS["concat"].apply(text, "!") == selected("concat($a, '!')", a=text)


def test_tokens_and_jaccard() -> None:
    assert apply("tokens", "Rust & Streams, rust-lang!") == "lang rust streams"
    assert apply("jaccard", "a b c", "b c d") == 0.5
    assert apply("jaccard", "", "") == 0.0
