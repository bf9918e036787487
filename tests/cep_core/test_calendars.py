"""Calendar streams: AT 'cron expression' in CEL, SASE and EQL."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import CepError, Engine, Event, Match, QueryError, algebra
from cep_core.algebra.calendars import MOST, calendar
from cep_core.events import CALENDAR_SCHEMA
from tests.cep_core.calendar_reference import Cron, with_instants
from tests.cep_core.engines import engine_of
from tests.examples import examples

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
CHANGES = (  # of the offsets of these zones, in seconds, about
    int(datetime(2026, 3, 29, tzinfo=UTC).timestamp()),
    int(datetime(2026, 10, 25, tzinfo=UTC).timestamp()),
    int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()),
    int(datetime(2026, 4, 4, 12, tzinfo=UTC).timestamp()),
    int(datetime(2026, 10, 3, 12, tzinfo=UTC).timestamp()),
)
EXPRESSIONS = st.builds(
    "{}{} {} {} * {}".format,
    st.sampled_from(["", "", "0 ", "20 ", "*/30 "]),
    st.sampled_from(["0", "30", "15,45", "*", "*/20", "5-59/25", "10-12"]),
    st.sampled_from(["2", "1-3", "*", "*/2", "0,2,9", "22", "1", "3"]),
    st.sampled_from(["*", "*", "1,25", "29", "*/2"]),
    st.sampled_from(["*", "*", "SUN", "MON-FRI", "0,7", "*/3"]),
)
STARTS = st.builds(
    lambda change, offset: change + offset, st.sampled_from(CHANGES), st.integers(-100_000, 100_000)
)


def at(text: str) -> int:
    """Return a time in seconds."""
    return int(datetime.fromisoformat(text + "+00:00").timestamp())


def engine(lateness: int = 0) -> Engine:
    """Return an engine with a stream of invoices."""
    return engine_of(["invoice"], {"n": int}, lateness=lateness)


def invoices(*times: str) -> list[Event]:
    """Return invoices at some times."""
    return [Event("invoice", (number,), at(time)) for number, time in enumerate(times)]


# -- calendars -------------------------------------------------------------------------------


@given(EXPRESSIONS, st.sampled_from(ZONES), STARTS, st.integers(0, 200_000))
@examples(40)
def test_instants_are_those_of_the_definition(
    expression: str, zone: str, start: int, length: int
) -> None:
    found, following = calendar(expression, zone).passed(start, start + length)
    reference = Cron(expression, zone)
    assert found == reference.between(start, start + length)
    if following is not None and following < start + length + 400_000:
        assert reference.between(start + length, following + 1) == [following]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "instants"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", ["03-29 01:00", "03-30 00:30"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", ["03-30 00:00", "03-30 00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", ["10-25 00:30", "10-26 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:00", ["10-26 01:30", "10-27 01:30"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25 00:00", ["10-25 00:30", "10-25 01:30"]),
        ("5 30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", ["03-29 01:00", "03-30 00:30"]),
        ("2026-03-29T02:30:00", "Europe/Berlin", "2026-03-28 12:00", ["03-29 01:00"]),
        ("2026-10-25T02:30:00", "Europe/Berlin", "2026-10-24 12:00", ["10-25 00:30"]),
        ("2026-10-25T02:30:00+01:00", "Europe/Berlin", "2026-10-24 12:00", ["10-25 01:30"]),
    ],
)
def test_gaps_and_repeats(expression: str, zone: str, start: str, instants: list[str]) -> None:
    seconds = calendar(expression, zone).seconds(at(start))
    found = [datetime.fromtimestamp(next(seconds), UTC).isoformat(" ")[5:16] for _ in instants]
    assert found == instants


def test_an_instant_belongs_to_the_time_from_which_it_is_asked_for() -> None:
    nine = at("2026-11-30 09:00")
    assert calendar("0 9 * * MON", "UTC").passed(nine, nine + 1) == ([nine], nine + 7 * 86_400)
    assert calendar("0 9 * * MON", "UTC").passed(nine - 1, nine) == ([], nine)
    assert calendar("0 9 * * MON", "UTC").passed(nine + 1, nine + 1) == ([], nine + 7 * 86_400)


def test_calendars_end_with_the_calendar() -> None:
    assert list(calendar("0 0 1 1 *", "UTC").seconds(at("9998-06-01 00:00"))) == [
        at("9999-01-01 00:00")
    ]
    first = next(calendar("0 0 1 1 *", "UTC").seconds(-(10**15)))
    assert first == at("0002-01-01 00:00")


def test_the_last_second_is_one() -> None:
    known = calendar("9999-12-31T23:59:59.999999", "UTC")
    assert [known.text(one) for one in known.seconds(0)] == ["9999-12-31T23:59:59+00:00"]


@pytest.mark.parametrize("text", ["2026-11-30T09:00:00Z", "2026-11-30T10:00:00+01:00"])
def test_a_date_and_time_is_one_instant(text: str) -> None:
    nine = at("2026-11-30 09:00")
    known = calendar(text, "UTC")
    assert known.passed(nine - 5, nine + 5) == ([nine], None)
    assert known.passed(nine - 5, nine) == ([], nine)
    assert known.passed(nine + 1, nine + 5) == ([], None)
    assert known.words == f"once, at {text}"
    core = engine()
    core.register("q", f"SELECT at FROM AT '{text}'")
    rows = core.push(invoices("2026-11-29 09:00", "2026-12-01 09:00", "2026-12-02 09:00"))
    assert [one.event.values for one in rows] == [("2026-11-30T09:00:00+00:00",)]


def test_a_long_gap_has_the_instants_of_its_last_minutes() -> None:
    start = at("2026-01-01 00:00")
    every, _ = calendar("* * * * *", "UTC").passed(start, start + 60 * (3 * MOST))
    assert len(every) == MOST
    assert every[0] == start + 60 * 2 * MOST
    every, _ = calendar("* * * * * *", "UTC").passed(start, start + 3 * MOST)
    assert (len(every), every[0]) == (MOST, start + 2 * MOST)
    rare, _ = calendar("0 0 * * *", "UTC").passed(start, start + 86_400 * MOST)
    assert len(rare) == MOST


# -- what is wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("AT '0 25 * * *'", "25", "'25' is no hour of a cron expression", "it is 0-23;"),
        ("AT '0 9 * * MO'", "MO", "'MO' is no day of week", "0-7 or SUN-SAT"),
        ("AT '0 9 30 2 *'", "30", "'30' is no day of month", "1-31"),
        (
            "AT '0 9 * *'",
            "0 9 * *",
            "five or six fields, not 4",
            "'0 9 * * MON' is 9:00 on Mondays",
        ),
        ("AT '*/70 * * * *'", "*/70", "'*/70' is no minute", "0-59"),
        ("AT '0,30/61 * * * * *'", "0,30/61", "is no second", "0-59"),
        ("AT '60 0 9 * * *'", "60", "'60' is no second", "0-59"),
        ("AT '0 0 24 * * *'", "24", "'24' is no hour", "0-23"),
        ("AT '2026-13-01T09:00:00Z'", "2026-13", "five or six fields, not 1", "9:00 on Mondays"),
        ("AT '9999-12-31T23:59:59-14:00'", "9999-12", "outside of the years", "such as 2026"),
        ("AT '0001-12-31T23:59:59'", "0001-12", "outside of the years", "such as 2026"),
        ("AT '9999-12-31T23:59:59' ZONE 'Etc/GMT+1'", "9999", "outside of the years", "such as"),
        ("AT '0 9 * * ?'", "?", "'?' is no day of week", "0-7"),
        ("AT ''", "'", "five or six fields, not 0", "minute, hour"),
        (f"AT '{'0,' * 100}0 9 * * *'", "0,0,", "at most 200 characters", "minute, hour"),
        ("AT '0 9 * * *' ZONE 'Europe/Berlni'", "Europe/Berlni", "no time zone", "Europe/Berlin"),
        ("AT '0 9 * * *' ZONE '../etc/passwd'", "../etc/passwd", "no time zone", "Europe/Berlin"),
        ("AT '0 9 * * *' ZONE 'localtime'", "localtime", "there is no time zone", ""),
        ("AT '0 9 * * *' ZONE Berlin", "ZONE", "a time zone is a text", "ZONE 'Europe/Berlin'"),
        ("AT '\0 9 * * *'", "\0", "is no minute", "0-59"),
    ],
)
def test_errors_have_their_place(text: str, place: str, message: str, hint: str) -> None:
    for query, language in [("SELECT * FROM {}", "cel"), ("EVENT {} a", "sase")]:
        with pytest.raises(QueryError) as caught:
            engine().register("q", query.format(text), language)
        error = caught.value
        assert (message in error.message, hint in str(error.hint)) == (True, True), error
        assert error.source[slice(*error.span)].startswith(place), error


def test_a_node_of_no_calendar_is_refused() -> None:
    with pytest.raises(CepError, match="is no hour"):
        engine().register("q", algebra.stream("AT '0 25 * * *'", CALENDAR_SCHEMA))
    with pytest.raises(CepError, match="there is no stream AT 'x"):
        engine().register("q", algebra.stream("AT 'x", CALENDAR_SCHEMA))


def test_nobody_pushes_events_to_a_calendar() -> None:
    core = engine()
    core.register("q", "SELECT * FROM AT '0 9 * * *'")
    core.push([Event("AT '0 9 * * *'", ("now",), 5)])
    (rejected,) = core.rejected
    assert "nobody pushes events to it" in rejected.reason


# -- queries ---------------------------------------------------------------------------------


def test_equal_calendars_are_one_stream_while_they_are_read() -> None:
    core = engine()
    core.register("a", "SELECT at FROM AT '0 9 * * mon'")
    core.register("b", "EVENT at '0  9 * * MON' zone 'Etc/UTC'", "sase")
    assert [name for name in core.plan.sources if name != "invoice"] == ["AT '0 9 * * MON'"]
    assert "At 09:00 on Monday, UTC" in core.explain("a")
    core.unregister("a")
    core.unregister("b")
    assert list(core.plan.sources) == ["invoice"]
    core.register("a", "SELECT at FROM AT '0 9 * * mon'")
    core.push(invoices("2026-11-22 12:00"))
    assert len(core.advance(at("2026-12-01 12:00"))) == 2


# -- engine and definition -------------------------------------------------------------------

QUERIES = {
    "next": ("cel", "SELECT n, at FROM invoice NEXT {}"),
    "after": ("cel", "SELECT at, n FROM {} NEXT invoice"),
    "join": ("cel", "SELECT n, at FROM invoice JOIN{{n > 0, 2 h}} {}"),
    "count": ("cel", "SELECT COUNT(at) AS c FROM {} WINDOW 5 h"),
    "absent": ("sase", "EVENT SEQ({} a, !(invoice i), {} b) WITHIN 3 hours RETURN a.at, b.at AS b"),
    "run": ("sase", "EVENT SEQ(invoice{{2}} i[], {} c) WITHIN 5 hours RETURN c.at"),
    "both": ("sase", "EVENT (invoice i AND {} c WITHIN 2 hours) RETURN i.n, c.at"),
    "first": ("eql", "SELECT A.n, B.at FROM invoice A ; {} B"),
    "unless": ("eql", "SELECT A.at, B.at AS b FROM ({} A ; {} B) \\ invoice Z"),
}


@given(
    st.sampled_from(list(QUERIES)),
    st.sampled_from(["0 * * * *", "*/30 * * * *", "0 2 * * *", "15 1-3 * * *", "0 */3 * * *"]),
    st.sampled_from(ZONES),
    st.sampled_from(CHANGES),
    st.lists(st.integers(0, 40), min_size=2, max_size=30),
    st.sampled_from([0, 0, 3_600, 10_000]),
    st.lists(st.integers(0, 30), max_size=3),
    st.lists(st.integers(0, 30), max_size=2),
    st.data(),
)
@examples(25)
def test_instants_are_events_that_are_pushed_in_time(
    kind: str,
    expression: str,
    zone: str,
    start: int,
    steps: list[int],
    lateness: int,
    cuts: list[int],
    restored: list[int],
    data: st.DataObject,
) -> None:
    """A query over a calendar finds what it finds over a stream to which the instants are pushed.

    However the input is cut, where it is restored, whether other queries read the calendar.
    """
    language, form = QUERIES[kind]
    step = st.sampled_from([900, 1_800, 1_000])
    times = [start + one * data.draw(step) for one in steps]
    if not lateness:
        times.sort()
    events = [Event("invoice", (number,), time) for number, time in enumerate(times)]
    end = max(times) + 20_000
    calendar_text = f"AT '{expression}' ZONE '{zone}'"

    plain = engine(lateness)
    plain.stream("cal", {"at": str})
    plain.register("q", form.replace("{}", "cal").format(), language)
    wanted = plain.push(with_instants(events, "cal", expression, zone, end))
    wanted += plain.advance(end) + plain.close()

    core = engine(lateness)
    if data.draw(st.booleans()):
        core.register("other", f"SELECT at FROM {calendar_text} PUBLISH instants")
    core.register("q", form.replace("{}", calendar_text).format(), language)
    found: list[Match] = []
    begun = 0
    for cut in sorted({*cuts, *restored, len(events)}):
        found += core.push(events[begun:cut])
        begun = max(begun, cut)
        if cut in restored:
            core = Engine.restore(core.snapshot())
    found += core.advance(end) + core.close()
    assert core.rejected == plain.rejected
    assert Counter(one.event[1:4] for one in found if one.query == "q") == Counter(
        one.event[1:4] for one in wanted
    )
    assert core.stats()["events"] == len(events)


@given(st.lists(st.integers(0, 60), min_size=25, max_size=60), st.integers(0, 60), st.data())
@examples(20)
def test_a_new_reader_of_a_calendar_finds_what_the_only_one_finds(
    steps: list[int], registered: int, data: st.DataObject
) -> None:
    """A query has the same matches whether or not another query already reads the calendar."""
    kind = data.draw(st.sampled_from(list(QUERIES)))
    language, form = QUERIES[kind]
    start = at("2026-11-23 00:00")
    events = [Event("invoice", (n,), start + 900 * step) for n, step in enumerate(steps)]
    text = form.replace("{}", "AT '*/30 * * * *'").format()
    answers = []
    for others in (False, True):
        core = engine(4_000)
        if others:
            core.register("early", text, language)
        core.push([Event("invoice", (-1,), start - 40_000)])  # the clock begins before
        matches = core.push(events[:registered])
        core.register("q", text, language)
        matches += core.push(events[registered:]) + core.advance(start + 80_000) + core.close()
        answers.append(Counter(one.event[1:4] for one in matches if one.query == "q"))
    assert answers[0] == answers[1]
