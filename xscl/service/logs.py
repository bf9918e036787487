"""The log of a service: one line an event, as text or as JSON, without secrets.

    2026-03-01T12:00:00.000Z WARNING xscl.store.disk_guard the disk is full: 12 MiB are free, less
    than 64
    {"time": "2026-03-01T12:00:00.000Z", "level": "WARNING", "logger": "xscl.store.disk_guard", ...}

What an event has besides its message is in fields of its own (`extra` of the standard library),
numbers as numbers.  Texts come from feeds, queries and requests: characters that would end a line
or steer a terminal are escaped, and what looks like a secret is left out: tokens, passwords in
addresses, headers that sign in, the secret part of a feed's address.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO, assert_never

LOGGERS = ("xscl", "feeds", "cep_core", "templates", "uvicorn.error")
"""Who is listened to; others are libraries that talk to programmers."""

_LONGEST = 10_000
_SECRETS = (
    (re.compile(r"\bxscl_([0-9a-f]{8})_[\w-]+"), r"xscl_\1_(secret)"),
    (re.compile(r"\bwhsec_[\w+/=-]+"), "whsec_(secret)"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w+/=.~-]{8,}"), r"\1 (secret)"),
    (re.compile(r"(\b[a-z][\w+.-]*://)[^\s/@:]*:[^\s/@]*@"), r"\1(secret)@"),
    (re.compile(r"(/f/)[\w-]{16,}"), r"\1(secret)"),
    (
        re.compile(r"(?i)([?&](?:token|key|api_?key|auth|secret|password|sig|signature)=)[^\s&#]+"),
        r"\1(secret)",
    ),
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSON = "json"


class OneLine(logging.Formatter):
    """Writes an event as one line."""

    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an event."""
        event = {
            "time": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": clean(record.getMessage()),
            **{name: _value(value) for name, value in _extra(record)},
        }
        if record.exc_info and record.exc_info[1] is not None:
            event["error"] = clean("".join(traceback.format_exception(record.exc_info[1])))
        match self._form:
            case LogFormat.JSON:
                return json.dumps(event, ensure_ascii=True)
            case LogFormat.TEXT:
                return " ".join(_words(event))
            case _:
                assert_never(self._form)


def _words(event: dict[str, Any]) -> Iterator[str]:
    for name, value in event.items():
        if name in ("time", "level", "logger", "message"):
            yield str(value)
        else:
            yield f"{name}={json.dumps(value, ensure_ascii=False)}"


def _extra(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name, value in vars(record).items():
        if name not in _STANDARD:
            yield name, value


def _value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else clean(str(value))


def clean(text: str) -> str:
    """Return a text on one line, without what steers a terminal and without secrets."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


@contextmanager
def logging_to(stream: TextIO, form: LogFormat) -> Iterator[None]:
    """Write events to a stream while the block runs, in place of whoever was told before."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLine(form))
    before = {}
    for name in LOGGERS:
        logger = logging.getLogger(name)
        before[name] = logger.handlers, logger.level, logger.propagate
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for name, (handlers, old, propagate) in before.items():
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old)
