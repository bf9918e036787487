"""The log: one line an event, whatever is in it, and no secrets."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.ingestion.pipeline import Consumer
from xscl.service.logs import LogFormat, OneLine, clean, logging_to


def record(message: str, *args: object, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("xscl.test").makeRecord(
        *("xscl.test", logging.WARNING, "f", 1, message, args, None), extra=extra
    )
    made.created = 1_700_000_000.25
    return made


def test_an_event_as_json() -> None:
    line = OneLine(LogFormat.JSON).format(record("%s is late", "d1", documents=3, ok=True, who="é"))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "xscl.test",
        "message": "d1 is late",
        "documents": 3,
        "ok": True,
        "who": "é",
    }


def test_an_event_as_text() -> None:
    line = OneLine(LogFormat.TEXT).format(record("late", documents=3, title='a "b"'))
    assert line == '2023-11-14T22:13:20.250Z WARNING xscl.test late documents=3 title="a \\"b\\""'


@pytest.mark.parametrize("form", list(LogFormat))
@pytest.mark.parametrize(
    "text",
    ["a\nb", "a\r\nWARNING forged", "\x1b]0;title\x07", "\u2028", "\u202e", "\0", "x" * 10**5],
)
def test_w9_an_event_is_one_line_that_steers_nothing(form: LogFormat, text: str) -> None:
    line = OneLine(form).format(record("%s", text, field=text))
    assert line.isprintable()
    assert len(line) < 30_000


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("token xscl_0123abcd_s3cr3t-Part_x", "s3cr3t"),
        ("GET /f/Abcdefghijklmnop_12345.atom", "Abcdefghijklmnop"),
        ("fetching https://user:hunter2@example.org/feed", "hunter2"),
        ("smtp+starttls://me:hunter2@mail.example:587", "hunter2"),
        ("https://example.org/feed?api_key=hunter2&x=1", "hunter2"),
        ("Authorization: Bearer hunter2hunter2", "hunter2"),
        ("authorization: basic aHVudGVyMjpodW50ZXIy", "aHVudGVy"),
        ("signed with whsec_aHVudGVyMg==", "aHVudGVy"),
    ],
)
def test_w19_no_secret_is_in_the_log(text: str, secret: str) -> None:
    assert secret not in clean(text)
    assert "(secret)" in clean(text)
    error = OneLine(LogFormat.JSON).format(record("it failed", detail=text))
    assert secret not in error


def test_what_is_no_secret_stays() -> None:
    text = "https://example.org/f/news?page=2 at 12:30@home by xscl_tools"
    assert clean(text) == text


def test_an_error_is_in_its_line() -> None:
    stream = io.StringIO()
    with logging_to(stream, LogFormat.JSON):
        try:
            raise ValueError("bad\nvalue")
        except ValueError:
            logging.getLogger("xscl.test").exception("it failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: bad" in json.loads(line)["error"]


def test_each_batch_is_an_event(tmp_path: Path) -> None:
    stream, before = io.StringIO(), logging.getLogger("xscl").handlers
    with logging_to(stream, LogFormat.JSON), Engine() as engine, Spool(tmp_path) as spool:
        spool.append([Document("S", "d1", 1, b"<a/>")], 0)
        Consumer(spool, engine.ingest).run_once()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    (pushed,) = [event for event in events if event["message"] == "a batch was pushed"]
    assert (pushed["documents"], pushed["segment"]) == (1, 1)
    assert re.fullmatch(r"[\d.]+", str(pushed["seconds"]))
    assert logging.getLogger("xscl").handlers == before
