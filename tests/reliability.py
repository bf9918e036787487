"""Which promises have a test.

A promise is a row of a table, such as S9: hostile values in answers.  A test of it says so in its
name: `test_s9_rows_are_capped`, or `test_x1_x2_...` for two of them.  A row whose tests were there
before the table has one of them in `ELSEWHERE`.  Golden files and the tests of the grammar have
numbers of other tables (`OTHER_TABLES`).

Group H has the findings of attacks on the first release (docs/reference/limits.md).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent

GROUPS = {
    "X": (1, 2, 3, 4, 6, 7, 8, 9, 13, 14, 15, 16, 17),  # hostile XML
    "F": (1, 4, 5, 6, 7, 8, 9, 10, 11, 12),  # hostile feeds
    "Q": (1, 2, 3, 4, 6, 7, 8, 9),  # hostile queries
    "S": (1, 3, 4, 6, 7, 9, 11, 12, 13),  # hostile SQL
    "W": (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19),  # hostile requests
    "C": (1, 2, 4, 5, 7, 8, 12, 14, 15, 16, 17, 18, 19, 20),  # crashes and faults
    "L": (1, 2, 3, 4, 6),  # load
    "H": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14),  # attacks on the first release
}
"""The rows by their groups."""

ROWS = tuple(f"{group}{number}" for group, numbers in GROUPS.items() for number in numbers)

OTHER_TABLES = ("golden/", "xscl/language/")
"""Folders whose tests are named after the examples of papers, such as Q1."""

ELSEWHERE: Mapping[str, str] = {
    "C5": "xscl/store/test_store_file.py::test_a_store_in_use_is_refused",
    "C8": "xscl/store/test_store_file.py::test_a_removed_log_is_noticed",
    "C15": "xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge",
    "L6": "xscl/engine/test_retention.py::test_everything_returns_to_a_steady_size",
    "Q3": "xscl/shredding/test_xpath_admission.py::test_refused_before_anything_is_evaluated",
    "Q4": "xscl/shredding/test_xpath.py::test_nothing_outside_of_the_document_is_read",
    "Q6": "xscl/language/test_parser.py::test_messages",
    "Q7": "xscl/language/test_parser.py::test_damaged_queries_give_nothing_but_query_errors",
    "H1": "xscl/engine/test_threads.py::test_all_can_read_while_another_thread_changes",
    "H2": "xscl/server/test_printing.py::test_who_is_slow_holds_up_nobody_and_skips",
    "H3": "xscl/engine/test_result_bound.py::test_more_answers_than_the_bound_are_none",
    "H5": "xscl/delivery/test_webhooks.py::test_w6_who_is_not_there_is_told_in_the_same_words",
    "H6": "xscl/polling/test_arrival_clock.py::test_a_step_and_back_leaves_no_trace",
    "H7": "feeds/test_spool.py::test_a_failed_append_leaves_no_gap_after_a_restart",
    "H8": "xscl/service/test_proxies.py::test_what_came_through_a_proxy_needs_a_token",
    "H9": "xscl/service/test_connections.py::test_what_comes_in_drops_has_a_deadline",
    "H10": "xscl/service/test_events.py::test_an_id_ahead_of_the_newest_is_refused",
    "H11": "xscl/service/test_guard.py::test_w11_two_hosts_are_refused",
    "H12": "feeds/test_xmlparse.py::test_x9_elements_and_attributes",
    "H14": "fuzz/test_xscl.py::test_a_text_is_registered_or_refused_at_a_place_in_it",
}
"""A test of each row that has none with its name."""

_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
_NAMED = re.compile(r"test_((?:[a-z]\d+_)+)")


@cache
def all_tests() -> tuple[tuple[str, str], ...]:
    """Return the file and the name of each test."""
    return tuple(
        (path.relative_to(TESTS).as_posix(), name)
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in _TEST.findall(path.read_text("utf-8"))
    )


def named() -> dict[str, list[str]]:
    """Return the tests of each row that have it in their names."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, name in all_tests():
        match = _NAMED.match(name)
        if match and not file.startswith(OTHER_TABLES):
            for row in match[1].rstrip("_").split("_"):
                found[row.upper()].append(f"{file}::{name}")
    return dict(found)


def untested() -> list[str]:
    """Return the rows that have no test."""
    found = named()
    return [row for row in ROWS if row not in found and row not in ELSEWHERE]
