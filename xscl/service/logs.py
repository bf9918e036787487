"""The log of a service: one line an event, as text or as JSON, without secrets.

    2026-03-01T12:00:00.000Z WARNING xscl.engine.disk_guard the disk is full: 12 MiB are free, less
    than 64
    {"time": "2026-03-01T12:00:00.000Z", "level": "WARNING", "logger": "xscl.engine.disk_guard", ..}

Structured fields of a record (`extra` of the standard library) become JSON fields.  Texts may
contain input from feeds, queries and requests.  Line ends and control characters are therefore
escaped, and secrets are redacted: tokens, passwords in URLs, authentication headers and the secret
part of a feed's address.
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
from typing import Any, TextIO

LOGGERS = ("xscl", "feeds", "cep_core", "templates", "uvicorn.error")
"""The loggers whose records are written; others belong to libraries."""

_LONGEST = 10_000
_SECRETS = (
    (re.compile(r"\bxscl_([0-9a-f]{8})_[\w-]+"), r"xscl_\1_(secret)"),
    (re.compile(r"\bwhsec_[\w+/=-]+"), "whsec_(secret)"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w+/=.~-]{8,}"), r"\1 (secret)"),
    (re.compile(r"(\b[a-z][\w+.-]*://)[^\s/@:]*:[^\s/@]*@"), r"\1(secret)@"),
    (re.compile(r"(/f/|/websub/|/unsubscribe/\w+/)[\w-]{16,}"), r"\1(secret)"),
    (
        re.compile(r"(?i)([?&](?:token|key|api_?key|auth|secret|password|sig|signature)=)[^\s&#]+"),
        r"\1(secret)",
    ),
)
_HEAD = ("time", "level", "logger", "message")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    """The format of log records."""

    TEXT = "text"
    JSON = "json"


class OneLine(logging.Formatter):
    """Formats a record as one line."""

    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        event = {
            "time": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": clean(record.getMessage()),
        }
        more = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        event |= {name: _value(value) for name, value in more.items()}
        if record.exc_info and record.exc_info[1] is not None:
            event["error"] = clean("".join(traceback.format_exception(record.exc_info[1])))
        if self._form is LogFormat.JSON:
            return json.dumps(event, ensure_ascii=True)
        return " ".join(
            str(value) if name in _HEAD else f"{name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in event.items()
        )


def _value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else clean(str(value))


def clean(text: str) -> str:
    """Return a text with escaped control characters and redacted secrets, cut at `_LONGEST`."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


@contextmanager
def logging_to(stream: TextIO, form: LogFormat) -> Iterator[None]:
    """Replace the handlers of `LOGGERS` by one that writes to a stream while the block runs."""
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
