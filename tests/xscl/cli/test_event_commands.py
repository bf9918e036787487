"""`xscl run --language`: event queries over CSV, JSON lines and XML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.xscl.commandline import called, failed, json_rows
from xscl.cli.event_records import EventRecord, Unreadable, read
from xscl.cli.run_events import inferred_schema

PAIRS = "SELECT A.acc, A.amount, B.amount FROM t A ; t B WHERE FILTER(A.acc = B.acc)"
CEL = "SELECT acc, amount_1 AS A_amount, amount AS B_amount FROM t NEXT{$1.acc = $2.acc} t"
CSV = "time,acc,amount\n1,a,10\n2,b,20\n3,a,30.5\n"
LINES = "".join(
    json.dumps({"time": time, "acc": acc, "amount": amount}) + "\n"
    for time, acc, amount in ((1, "a", 10), (2, "b", 20), (3, "a", 30.5))
)
XML = (
    "<events><t time='1' acc='a'><amount>10</amount></t><t time='2' acc='b' amount='20'/>"
    "<t time='3' acc='a' amount='30.5'/></events>"
)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def eql(*arguments: str, query: str = PAIRS, given: str | None = None) -> Result:
    return called("run", "--language", "eql", "-q", query, *arguments, given=given)


def rows(*arguments: str, given: str | None = None, **asked: str) -> list[dict[str, Any]]:
    done = eql(*arguments, "--json", given=given, **asked)
    assert done.exit_code == 0, done.stderr
    return json_rows(done.stdout)


def values(*arguments: str, given: str | None = None, **asked: str) -> list[dict[str, Any]]:
    """Return the values of matches."""
    return [row["values"] for row in rows(*arguments, given=given, **asked)]


def eql_fails(code: int, *arguments: str, query: str = PAIRS) -> str:
    return failed(code, "run", "--language", "eql", "-q", query, *arguments)


@pytest.mark.parametrize("text", [CSV, LINES, XML], ids=["csv", "json", "xml"])
@pytest.mark.parametrize(("language", "query"), [("eql", PAIRS), ("cel", CEL)])
def test_formats_and_languages(text: str, language: str, query: str) -> None:
    write("t.data", text)
    (row,) = rows("--language", language, "t.data", "--unit", "s", query=query)
    assert (row["query"], row["t0"], row["t1"]) == ("q1", 1_000_000, 3_000_000)
    assert list(row["values"].values()) == ["a", 10, 30.5]


def test_matches_as_text() -> None:
    write("t.csv", "time,acc,amount\n2024-05-06T00:00:00,a,1\n2024-05-06T00:01:00,a,2\n")
    done = eql("t.csv")
    assert done.stdout == "2024-05-06T00:01:00Z  q1  A_acc=a  A_amount=1  B_amount=2\n"
    runs = eql("t.csv", query="SELECT ALL(A.amount) AS run FROM t A+")
    assert any(line.endswith("run=(1, 2)") for line in runs.stdout.splitlines())


VALUES = {
    "0.30 - 0.20": ("0.1", "0.1"),
    "xs_decimal('12345678901234567.50')": ("12345678901234567.5", "12345678901234567.5"),
    "number('1e7') / 4": ("2500000.0", "2500000"),
    "number('INF')": ("null", "INF"),
    "number('INF') - number('INF')": ("null", ""),
    "acc = 'a'": ("true", "true"),
    "NULL": ("null", ""),
    "tokenize('\x9bb c')": ('["\\u009bb", "c"]', "(b, c)"),
}


@pytest.mark.parametrize("value", VALUES)
def test_values_of_all_types_are_written(value: str) -> None:
    write("t.csv", "time,acc\n0,a\n")
    in_json, in_text = VALUES[value]
    options = ("--language", "cel", "t.csv")
    query = f"SELECT {value} AS x FROM t"
    assert eql(*options, "--json", query=query).stdout == (
        f'{{"query": "q1", "t0": 0, "t1": 0, "values": {{"x": {in_json}}}}}\n'
    )
    assert eql(*options, query=query).stdout == f"1970-01-01T00:00:00Z  q1  x={in_text}\n"


def test_standard_input_needs_a_stream() -> None:
    assert [one["B_amount"] for one in values("--stream", "t=-", given=LINES)] == [30.5]
    done = eql("-", given=LINES)
    assert done.exit_code == 2
    assert done.stderr == (
        "xscl: of which stream are the events of -?\nhint: say it with --stream NAME=-\n"
    )


def test_a_schema_gives_types_and_columns_and_names_the_only_stream() -> None:
    write("all.sdl", "SOURCE t (acc str, amount float) TIME at -- the bank's\n")
    write("x.csv", "at,acc,amount\n1,007,10\n2,007,20\n")
    found = values("--schema", "all.sdl", "x.csv")
    assert found == [{"A_acc": "007", "A_amount": 10.0, "B_amount": 20.0}]
    assert [one["A_acc"] for one in values("--stream", "t=x.csv", "--time", "at")] == ["007"]
    write("t.sdl", "SOURCE t (ms int, acc str, amount float) TIME ms")
    write("t.csv", "1000,a,10\n2000,a,20\n")
    found = values("--schema", "t.sdl", "--unit", "ms", "t.csv")
    assert found == [{"A_acc": "a", "A_amount": 10.0, "B_amount": 20.0}]
    write("u.csv", "1000,7,10\n2000,7,20\n")
    done = eql("--stream", "t=u.csv")
    assert done.stderr.startswith(
        "xscl: not read: u.csv:1: there are values where the heading should be\n"
        "hint: name all its columns, in their order, with --schema\n"
    )


def test_one_bad_row_is_reported_and_does_not_disturb_the_rest() -> None:
    write("all.sdl", "SOURCE t (acc str, amount float)")
    write("t.csv", "time,acc,amount\n1,a,10\n2,a\n3,a,much\nlater,a,5\n4,a,20\n")
    options = ("--schema", "all.sdl", "t.csv", "--unit", "s")
    done = eql(*options, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["values"]["B_amount"] == 20
    assert done.stderr.splitlines() == [
        "xscl: not read: t.csv:3: 2 values for the 3 columns",
        "xscl: not read: t.csv:4: amount is 'much', not of type float",
        "xscl: not read: t.csv:5: 'later' is no time",
        "xscl: events read: 2, not read: 3",
    ]
    assert eql(*options, "--strict").exit_code == 1


def test_a_bad_line_of_json_and_a_nested_event() -> None:
    write("t.jsonl", LINES + "{nix\n" + '{"time": 4, "acc": ["a"]}\n[1]\n')
    done = eql("t.jsonl")
    wrong = [line.split(": ")[2] for line in done.stderr.splitlines() if ": not read: " in line]
    assert wrong == ["t.jsonl:4", "t.jsonl:5", "t.jsonl:6"]


def test_a_query_with_a_mistake() -> None:
    write("t.csv", CSV)
    told = eql_fails(2, "t.csv", query=PAIRS.replace("B.acc", "B.ac"))
    assert "xscl: line 1, column 70: B has no attribute ac" in told
    assert "hint: did you mean acc?" in told
    assert "there is no stream tt" in eql("t.csv", query="SELECT * FROM tt").stderr


def test_a_value_that_makes_text_of_numbers_is_named() -> None:
    write("t.csv", "time,acc,amount\n1,a,10\n2,x,\n3,a,n/a\n4,a,none\n")
    said = eql_fails(2, "t.csv", query="SELECT * FROM t A WHERE FILTER(A.amount > 4)")
    assert "cannot compare str with int" in said
    told = "xscl: the column amount of t is text: t.csv:4 has 'n/a'\n"
    assert said.endswith(told)
    assert told not in eql("t.csv", query="SELECT * FROM t A WHERE FILTER(A.amont > 4)").stderr


WRONG = {
    "--language eqll": "there is no language eqll\nhint: did you mean eql?",
    "--unit h": "there is no unit h\nhint: there are ns, us, usec, ms, msec, s, sec",
    "--native": "--native means nothing with --language",
    "--time at": "t has no column at\nhint: there are acc, amount, time",
    "--stream t": "--stream 't' is not of the form NAME=PATH",
    "--schema nix.sdl": "the schema file nix.sdl cannot be read: No such file or directory",
}


@pytest.mark.parametrize("options", WRONG)
def test_calls_that_are_wrong(options: str) -> None:
    write("t.csv", CSV)
    assert eql_fails(2, *options.split(), "t.csv") == f"xscl: {WRONG[options]}\n"
    told = failed(2, "run", "--time", "x", "-q", PAIRS, "t.csv")
    assert told == "xscl: --time means nothing with documents\n"


def test_a_schema_with_a_mistake() -> None:
    write("t.csv", CSV)
    write("all.sdl", "SOURCE t (acc string)")
    told = eql_fails(2, "--schema", "all.sdl", "t.csv")
    assert told == (
        "xscl: all.sdl: line 1, column 15: there is no type string\n"
        "  SOURCE t (acc string)\n"
        "                ^^^^^^\n"
        "  hint: did you mean str?\n"
    )


def test_events_of_several_files_come_in_order_of_time() -> None:
    write("a.csv", "time,x\n1,1\n4,2\n")
    write("b.csv", "time,y\n3,5\n2,6\n")
    query = "SELECT * FROM a A ; b B"
    assert values("a.csv", "b.csv", query=query) == [{"A_x": 1, "B_y": 6}]


LATER = "acc,amount,year,at\na,1,2025,2026-05-06\na,2,2026,2026-05-06T10:00:00Z\na,3,2026,\n"


def test_rows_without_a_time_come_one_a_second_with_a_warning() -> None:
    warned = "xscl: warning: t has no column 'time': its events are taken as a second apart\n"
    for text, hint in (
        ("acc,amount\na,1\na,2\n", "say --time NAME"),
        (LATER, "say --time at: its values are times"),
    ):
        write("t.csv", text)
        first, *_ = rows("t.csv")
        assert (first["t0"], first["t1"]) == (0, 1_000_000)
        done = eql("t.csv")
        assert (done.exit_code, done.stderr) == (0, f"{warned}hint: {hint}\n")
    write("t.csv", CSV)
    assert warned not in eql("t.csv").stderr


KINDS: dict[type, tuple[tuple[str, ...], ...]] = {
    int: (("1", "2"), ("9", "10", "100")),
    float: (("1", "2.5", ""), ("0", "-3", "0.5", "1e3"), ("40", "40.00"), ("1E3", "2")),
    bool: (("true", "False"),),
    str: (
        *(("1", "a"), ("", ""), ("1", "true"), ("nan", "1"), ("007", "7"), ("1_0", "10")),
        *(("INF", "1"), ("0x10", "1"), ("\u0661", "1"), ("1\u00a0", "1"), ("2026-01-02", "1")),
    ),
}


def test_inferred_types() -> None:
    for kind, columns in KINDS.items():
        for texts in columns:
            records = [EventRecord({"x": text or None}, "", n) for n, text in enumerate(texts)]
            assert inferred_schema(records, ()).types == (kind,), texts


NUMBERS = {
    "t.csv": "a,b\n9,1.0E1\n+1E1,9.5\n1_0,20\n",
    "t.jsonl": '{"a": 9, "b": "1.0E1"}\n{"a": "+1E1", "b": 9.5}\n{"a": "1_0", "b": 20}\n',
    "t.xml": "<l><e a='9' b='1.0E1'/><e a='+1E1' b='9.5'/><e a='1_0' b='20'/></l>",
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("kind", ["int", "float"])
def test_numbers_of_files_have_one_form(name: str, kind: str) -> None:
    write("t.sdl", f"SOURCE t (a {kind}, b float)")
    write(name, NUMBERS[name])
    query = "SELECT a, b FROM FILTER{a < b} t"
    done = eql("--language", "cel", "--schema", "t.sdl", name, "--json", query=query)
    assert [row["values"] for row in json_rows(done.stdout)] == [{"a": 9, "b": 10}]
    assert f"a is '1_0', not of type {kind}" in done.stderr


def test_signs_that_end_a_line_elsewhere_are_part_of_a_value() -> None:
    write("t.csv", "time,acc,amount\n1,a\x85b,10\n2,a\u2028b,20\n3,a\x85b,30\n")
    assert values("t.csv") == [{"A_acc": "a\x85b", "A_amount": 10, "B_amount": 30}]
    write("u.jsonl", '{"time": 1, "acc": "a\u2028b"}\n{"time": 2, "acc": "a\u2028b"}\n')
    query = "SELECT A.acc FROM u A ; u B WHERE FILTER(A.acc = B.acc)"
    assert len(rows("u.jsonl", query=query)) == 1


def found(name: str) -> Iterator[str]:
    for one in read(name):
        yield one.reason if isinstance(one, Unreadable) else ",".join(one.values)


def test_headings_become_names_and_faults_of_csv_are_reported() -> None:
    write("a.csv", "Close Price,2nd,ü\n1,2,3\n\n")
    assert list(found("a.csv")) == ["Close_Price,_2nd,ü"]
    Path("b.csv").write_bytes(b"a,b\n\xff,1\n")
    assert list(found("b.csv")) == ["it is not UTF-8 text: byte 4"]
    write("c.csv", 'a,b\n1,"x"y\n1,2\n')
    fault, record = found("c.csv")
    assert fault.startswith("this is no CSV: ")
    assert record == "a,b"


# -- what files are like -------------------------------------------------------------------


def said(*arguments: str) -> list[str]:
    """Return the error of a run, independent of its queries."""
    return eql(*arguments, query="SELECT * FROM t").stderr.splitlines()


def test_strings_of_json_stay_strings() -> None:
    write("t.jsonl", '{"time": 1, "acc": "12", "n": 3}\n{"time": 2, "acc": "12", "n": 4}\n')
    query = "SELECT A.acc, B.n FROM t A ; t B WHERE FILTER(A.acc = B.acc)"
    assert values("t.jsonl", query=query) == [{"A_acc": "12", "B_n": 4}]
    write("all.sdl", "SOURCE t (acc int, n float)")  # somebody says that they are numbers
    found = values("t.jsonl", "--schema", "all.sdl", query=query)
    assert found == [{"A_acc": 12, "B_n": 4.0}]


def test_an_array_of_json() -> None:
    write("t.json", json.dumps([json.loads(line) for line in LINES.splitlines()], indent=2))
    (read_,) = values("t.json", "--unit", "s")
    assert read_ == {"A_acc": "a", "A_amount": 10, "B_amount": 30.5}
    write("u.json", '[\n  {"a": 1},\n  {"a": oops},\n  {"a": 3}, 4\n')
    assert list(found("u.json")) == [
        "a",
        "this is no JSON: Expecting value: line 3 column 9 (char 22)",
        "a",
        "an event is one object",
        "the array is not closed",
    ]


NOT_READ = {
    "t.csv:1: two columns are called a_b": "a b,a_b\n1,2\n",
    "t.jsonl:1: a is there twice": '{"a": 1, "a": 2}\n',
    "t.jsonl:1: a_b is there twice": '{"a-b": 1, "a b": 2}\n',
    "t.xml:2: a is there twice": "<e>\n<t><a>1</a><a>2</a></t></e>",
    "t.xml:2: b is there twice": "<e>\n<t b='1'><b>2</b></t></e>",
    "t.xml:1: amount is no single value": "<e><t><amount><b/></amount></t></e>",
    "t.jsonl:1: inf is no time": '{"time": 1e999, "acc": "a"}\n',
    "t.jsonl:1: nan is no time": '{"time": NaN, "acc": "a"}\n',
}


@pytest.mark.parametrize("message", NOT_READ)
def test_what_is_twice_or_no_value_is_not_read(message: str) -> None:
    name = write(message.partition(":")[0], NOT_READ[message])
    assert f"xscl: not read: {message}" in said(name)


def test_a_quote_that_is_not_closed_costs_one_line() -> None:
    write("t.csv", 'time,acc,amount\n1,a,10\n2,"b,20\n3,a,30\n4,"c\nd",1\n5,"x"y,2\n6,a,3\n')
    done = eql("t.csv", "--unit", "s")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.splitlines() == [
        "xscl: not read: t.csv:3: this is no CSV: ',' expected after '\"'",
        "xscl: not read: t.csv:7: this is no CSV: ',' expected after '\"'",
        "xscl: events read: 4, not read: 2",
    ]
    write("t.csv", 'time,acc,amount\n1,a,10\n2,"b,20\n3,a,30\n')
    done = eql("t.csv", "--unit", "s")
    assert len(done.stdout.splitlines()) == 1
    assert "xscl: not read: t.csv:3: a quote is opened here and never closed" in done.stderr


TIMES: dict[tuple[str, ...], str | None] = {
    ("1", "2.5", "1800"): "all of them are within 1799 of one another",
    ("1700000000", "1700000060"): "they look like seconds since 1970",
    ("1700000000000", "1700000060000"): "they look like milliseconds since 1970",
    ("200000000000000000",): "they look like nanoseconds since 1970",
    ("1700000000000000", "1700000000000009"): None,
    **dict.fromkeys((("0", "5000000"), ("7",), ("2024-05-06T00:00:00", "2024-05-06T00:00:01"))),
}


@pytest.mark.parametrize("times", TIMES)
def test_times_that_may_be_no_microseconds(times: tuple[str, ...]) -> None:
    write("t.csv", "".join(f"{one},1\n" for one in ("time,x", *times)).replace("x,1", "x"))
    warning = f"xscl: the times of t are taken as microseconds, but {TIMES[times]}"
    expected = [warning, "hint: say --unit ns, us, usec, ms, msec, s, sec"] if TIMES[times] else []
    assert said("t.csv") == expected
    assert said("t.csv", "--unit", "us") == []


def test_times_beyond_the_year_9999_are_not_read_and_make_nothing_late() -> None:
    """Nanoseconds that are taken for microseconds, or the largest number that there is."""
    rows_ = "".join(f"{time},1\n" for time in (1700000000000000000, (1 << 62) - 1, 0, 9))
    write("t.csv", f"time,x\n{rows_}")
    done = eql("--language", "cel", "t.csv", query="SELECT * FROM t NEXT{$1.x = $2.x} t")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.count("is out of range: times of events are at most") == 2
    assert "events read: 2, not read: 2" in done.stderr


def test_a_window_without_a_unit_is_refused() -> None:
    write("t.csv", CSV)
    options = ("--language", "sase", "t.csv", "--unit", "s")
    told = eql_fails(2, *options, query="EVENT SEQ(t a, t b) WITHIN 5")
    assert "line 1, column 28: the window 5 has no unit" in told
    assert "hint: write '5 s' or '5 min'" in told


def test_units() -> None:
    write("t.csv", "time,x\n1500,1\n")
    for unit, ticks in (("ns", 2), ("us", 1_500), ("msec", 1_500_000), ("s", 1_500_000_000)):
        (row,) = rows("t.csv", "--unit", unit, query="SELECT * FROM t")
        assert row["t1"] == ticks
    query = "SELECT * FROM t A ; t B WHERE (A, B) OCCURS WITHIN 10 msec"
    write("t.csv", "time,x\n0,1\n10,2\n21,3\n")
    assert len(rows("t.csv", "--unit", "msec", query=query)) == 1


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_other_signs_between_columns(sign: str) -> None:
    write("t.csv", CSV.replace(",", sign).replace("b", '"b,b"'))
    assert len(rows("t.csv", "--unit", "s")) == 1


EMPTY = {
    **dict.fromkeys(("", "\n \n"), "it is empty"),
    "time,acc\n": "it has no event below its heading",
    "<e/>": "its root has no element that is an event",
}


@pytest.mark.parametrize("text", EMPTY)
def test_a_file_without_events(text: str) -> None:
    write("t.csv", text)
    first, *_, last, hint = eql_fails(2, "t.csv").splitlines()
    assert first == f"xscl: not read: t.csv: {EMPTY[text]}"
    assert last == "xscl: nothing is known of t: no event of it could be read"
    assert hint == "hint: say what it has with --schema: SOURCE t (price float)"
    write("all.sdl", "SOURCE t (acc str, amount float)")
    told = eql_fails(1, "t.csv", "--schema", "all.sdl")
    assert told.splitlines()[-1] == "xscl: events read: 0, not read: 1"
