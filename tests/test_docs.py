"""The examples of the documentation work."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from xscl.delivery.channels.signature import headers, new_secret
from xscl.delivery.endpoint import SCHEDULE

DELIVERIES = (Path(__file__).parents[1] / "docs" / "deliveries.md").read_text("utf-8")


def _verified() -> Callable[[str, dict[str, str], bytes], bool]:
    (code,) = re.findall(r"```python\n(.*?)```", DELIVERIES, re.DOTALL)
    found: dict[str, Callable[[str, dict[str, str], bytes], bool]] = {}
    exec(compile(code, "deliveries.md", "exec"), found)
    return found["verified"]


def test_w13_the_example_of_a_receiver_takes_and_refuses() -> None:
    verified, secret, old, now = _verified(), new_secret(), new_secret(), int(time.time())
    signed = headers([secret], "m", now, b"{}")
    assert verified(secret, signed, b"{}")
    assert verified(old, headers([secret, old], "m", now, b"{}"), b"{}")
    assert not verified(secret, signed, b"{ ")
    assert not verified(old, signed, b"{}")
    for wrong in (now - 600, now + 600):
        assert not verified(secret, headers([secret], "m", wrong, b"{}"), b"{}")


def test_the_schedule_is_the_one_that_is_told() -> None:
    units = {"s": 1, "min": 60, "h": 3_600}
    told = re.search(r"tries again after (.*?) \(", DELIVERIES)
    assert told is not None
    waits = [one.split() for one in told[1].split(", ")]
    assert tuple(int(number) * units[unit] for number, unit in waits) == SCHEDULE
