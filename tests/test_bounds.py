"""The tables of docs/reference/limits.md: each bound has a test, and its number is the code's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import NamedTuple

import pytest

from tests.project import ROOT
from tests.reliability import all_tests
from xscl.delivery.outbox import endpoints
from xscl.delivery.syndication import secret_addresses
from xscl.service.accounts import Quota

PAGE = (ROOT / "docs/reference/limits.md").read_text("utf-8")
TICKS = 1_000_000
UNITS: Mapping[str, tuple[int, ...]] = {
    **{"s": (1, TICKS), "min": (60, 60 * TICKS), "h": (3_600, 3_600 * TICKS)},
    **{"days": (86_400, 86_400 * TICKS), "MB": (1_000_000,)},
    **{"KiB": (1 << 10,), "MiB": (1 << 20,), "GiB": (1 << 30,)},
}
"""The values in the code of one unit: times are in seconds, or in ticks."""


class Bound(NamedTuple):
    """A row of a table."""

    resource: str
    bound: str
    values: list[str]
    beyond: str
    tests: list[tuple[str, str]]


def rows() -> Iterator[Bound]:
    for line in PAGE.splitlines():
        if line.startswith("| ") and not line.startswith("| resource "):
            resource, bound, values, beyond, tests = line.strip("| ").split(" | ")
            named = re.findall(r"`([\w/]+)::(test_\w+)`", tests)
            yield Bound(resource, bound, re.findall(r"`([^`]+)`", values), beyond, named)


BOUNDS = tuple(rows())


def numbers(bound: str) -> Iterator[set[float]]:
    """Yield what each number in a cell may be in the code; options and names are in code spans."""
    plain = re.sub(r"`[^`]*`", "", bound)
    for number, unit in re.findall(r"(\d(?:[\d,]*\d)?(?:\.\d+)?)(?: ([A-Za-z]+))?", plain):
        yield {float(number.replace(",", "")) * size for size in UNITS.get(unit, (1,))}


def value_of(named: str) -> float:
    """Return a number, or the value of an expression in a module."""
    module, _, expression = named.rpartition(":")
    return float(eval(expression, vars(import_module(module)) if module else {}))


@pytest.mark.parametrize("row", BOUNDS, ids=lambda row: row.resource)
def test_a_bound_has_the_numbers_of_the_code_and_a_test(row: Bound) -> None:
    stated = list(numbers(row.bound))
    assert len(stated) == len(row.values), "each number is set somewhere"
    for number, named in zip(stated, row.values, strict=True):
        assert value_of(named) in number, named
    assert row.beyond
    assert row.tests
    for file, name in row.tests:
        found = [one for one, test in all_tests() if test == name]
        assert any(one.removesuffix(".py").endswith(f"/{file}") for one in found), (file, name)


def test_a_resource_has_one_row() -> None:
    assert len({row.resource for row in BOUNDS}) == len(BOUNDS) > 100
    assert secret_addresses.MOST == endpoints.MOST, "which share a row"


def test_every_quota_has_a_row() -> None:
    """A quota without a row in the table of users would be a bound that nobody tests."""
    page = PAGE.partition("\n## One user\n")[2].partition("\n## ")[0]
    quotas = page.count("| 403 `quota_exceeded`") + page.count("| wait for the next day")
    assert quotas + page.count("| 429 ") - 1 == len(fields(Quota)), "and one row of tokens"
