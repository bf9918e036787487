"""Which promises have a test: `python -m tests.reliability` prints those that have none.

It prints as well those of which no test is in the usual run, all being marked as slow.

A promise is a row of a table, such as S9: hostile values in answers.  A test of it says so in its
name: `test_s9_rows_are_capped`, or `test_x1_x2_...` for two of them.  Tests that were there before
the table are listed in `ELSEWHERE` under their own names.  Golden files and the tests of the
grammar have numbers of other tables (`OTHER_TABLES`).

Group H has the findings of attacks on the first release (SECURITY.md, "Bounds").
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent

GROUPS = {
    "X": ("hostile XML", (1, 2, 3, 4, 6, 7, 8, 9, 13, 14, 15, 16, 17)),
    "F": ("hostile feeds", (1, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
    "Q": ("hostile queries", (1, 2, 3, 4, 6, 7, 8, 9)),
    "S": ("hostile SQL", (1, 3, 4, 6, 7, 9, 11, 12, 13)),
    "W": (
        "hostile requests and receivers",
        (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19),
    ),
    "C": ("crashes and faults", (1, 2, 4, 5, 7, 8, 12, 14, 15, 16, 17, 18, 19, 20)),
    "L": ("load", (1, 2, 3, 4, 6)),
    "H": ("attacks on the first release", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14)),
}
"""The rows by their groups."""

ROWS = tuple(f"{group}{number}" for group, (_, numbers) in GROUPS.items() for number in numbers)

OTHER_TABLES = ("golden/", "xscl/language/")
"""Folders whose tests are named after the examples of papers, such as Q1."""

ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "C1": ("xscl/store/test_store_disk.py::test_a_loss_of_power_loses_nothing",),
    "C4": (
        "xscl/server/test_termination.py::test_during_a_push_that_takes_minutes",
        "xscl/server/test_termination.py::test_during_all_that_waits_for_others",
    ),
    "C5": (
        "xscl/store/test_store_file.py::test_a_store_in_use_is_refused",
        "xscl/ingestion/test_data_directory.py::test_the_second_is_told_who_is_first",
    ),
    "C8": (
        "xscl/store/test_store_file.py::test_a_file_of_something_else_is_refused",
        "xscl/store/test_store_file.py::test_a_flipped_bit_of_the_database_is_noticed",
        "xscl/store/test_store_file.py::test_a_flipped_bit_of_the_log_is_noticed",
        "xscl/store/test_store_file.py::test_a_removed_log_is_noticed",
    ),
    "C15": (
        "xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge",
        "xscl/engine/test_engine_properties.py::"
        "test_output_does_not_depend_on_order_of_arrival_within_lateness",
        "xscl/subscriptions/test_late.py::test_who_may_have_missed_a_document_is_told_by_the_definition",
    ),
    "C18": (
        "xscl/store/test_backup.py::test_while_another_thread_pushes",
        "xscl/store/test_backup.py::test_on_another_machine",
        "xscl/cli/test_former_stores.py::test_a_backup_is_refused",
        "xscl/store/test_store_file.py::test_a_later_version_is_refused",
    ),
    "L6": ("xscl/engine/test_retention.py::test_everything_returns_to_a_steady_size",),
    "H1": (
        "stress/test_stress.py::test_many_clients_at_once",
        "stress/test_stress.py::test_many_clients_for_half_an_hour",
        "stress/test_stress.py::test_threads_that_share_the_connection_that_writes_are_noticed",
        "xscl/engine/test_threads.py::test_all_can_read_while_another_thread_changes",
    ),
    "H2": (
        "xscl/server/test_printing.py::test_a_match_of_many_nodes_is_shown_in_linear_work",
        "xscl/server/test_printing.py::test_who_is_slow_holds_up_nobody_and_skips",
        "xscl/ingestion/test_consumer_watch.py::test_health_says_so_while_the_engine_is_busy",
        "xscl/server/test_termination.py::test_during_a_push_that_takes_minutes",
    ),
    "H3": (
        "xscl/engine/test_result_bound.py::test_two_small_documents_with_millions_of_answers",
        "xscl/engine/test_result_bound.py::test_more_answers_than_the_bound_are_none",
        "xscl/engine/test_result_bound.py::"
        "test_chains_and_published_results_do_not_depend_on_batches",
        "xscl/engine/test_result_bound.py::"
        "test_a_push_with_very_many_results_is_split_between_documents",
        "xscl/engine/test_result_bound.py::"
        "test_an_operator_over_time_takes_no_row_of_a_document_that_was_cut",
    ),
    "H4": (
        "xscl/service/test_order_of_acceptance.py::"
        "test_operators_over_time_see_concurrent_posts_in_the_order_of_acceptance",
    ),
    "H5": (
        "feeds/test_addresses.py::test_w1_w2_networks_of_the_table_are_refused_in_every_form",
        "feeds/test_addresses.py::test_the_table_has_what_the_registries_and_the_clouds_have",
        "feeds/test_addresses.py::test_a_refused_name_is_answered_as_one_that_does_not_resolve",
        "xscl/delivery/test_webhooks.py::test_no_message_goes_into_a_refused_network",
        "xscl/service/test_deliveries.py::test_users_cannot_tell_inner_names_from_unknown_ones",
    ),
    "H6": (
        "xscl/polling/test_arrival_clock.py::test_a_step_and_back_leaves_no_trace",
        "xscl/service/test_clock_steps.py::test_a_step_of_a_month_and_back_ends_no_join",
        "xscl/service/test_clock_steps.py::test_a_step_is_reported_with_the_way_back",
    ),
    "H7": (
        "feeds/test_spool.py::test_a_failed_append_leaves_no_gap_after_a_restart",
        "feeds/test_spool.py::test_a_lost_segment_is_named_with_the_command_that_gives_it_up",
        "xscl/ingestion/test_pipeline.py::"
        "test_a_consumer_stops_at_a_lost_segment_after_those_before_it",
    ),
    "H8": (
        "xscl/service/test_proxies.py::test_what_came_through_a_proxy_needs_a_token",
        "xscl/service/test_proxies.py::test_a_service_with_a_name_asks_for_tokens",
    ),
    "H9": (
        "xscl/service/test_connections.py::test_one_clients_connections_leave_room_for_others",
        "xscl/service/test_connections.py::test_what_comes_in_drops_has_a_deadline",
    ),
    "H10": (
        "xscl/service/test_events.py::test_an_id_ahead_of_the_newest_is_refused",
        "xscl/service/test_events.py::"
        "test_who_comes_back_after_matches_were_dropped_is_told_of_the_gap",
    ),
    "H11": (
        "xscl/service/test_guard.py::test_w11_a_host_that_is_not_certain_is_refused",
        "xscl/service/test_guard.py::test_w11_two_hosts_are_refused",
        "xscl/service/sql/test_sql_service.py::test_a_user_sees_no_results_of_before_he_subscribed",
        "xscl/store/test_backup.py::test_neither_store_nor_mark",
        "feeds/test_files.py::test_a_link_out_of_the_directory_is_not_read",
        "xscl/server/test_serve.py::test_matches_of_users_are_not_the_operators",
        "xscl/cli/test_remote.py::test_a_token_on_the_command_line_is_warned_of",
    ),
    "H12": (
        "feeds/test_xmlparse.py::test_x9_elements_and_attributes",
        "stress/test_stress.py::test_hostile_documents_and_connections_of_one_client",
    ),
    "H14": (
        "fuzz/test_xscl.py::test_a_text_is_registered_or_refused_at_a_place_in_it",
        "fuzz/test_event_languages.py::test_a_text_is_registered_or_refused_at_a_place_in_it",
        "xscl/service/test_refused_queries.py::test_over_http",
        "cep_core/languages/test_sase.py::test_a_sequence_of_many_components",
        "cep_core/languages/test_sase.py::test_a_sequence_of_too_many_components",
        "xscl/documents/test_documents.py::test_an_absurd_time_is_rejected_and_makes_nothing_late",
    ),
}
"""Tests of rows that do not have them in their names."""

_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
_SLOW = "pytest.mark.slow"
_NAMED = re.compile(r"test_((?:[a-z]\d+_)+)")


@cache
def all_tests() -> tuple[tuple[str, str], ...]:
    """Return the file and the name of each test."""
    return tuple(
        (path.relative_to(TESTS).as_posix(), name)
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in _TEST.findall(path.read_text("utf-8"))
    )


@cache
def slow_tests() -> frozenset[str]:
    """Return the tests, as file::name, that are marked as slow, or whose file is.

    A test some of whose parameters are slow is none of them.
    """
    found = set[str]()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if _SLOW not in text:
            continue
        body = ast.parse(text).body
        whole = any(
            _SLOW in ast.unparse(one.value)
            for one in body
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"
        )
        found.update(
            f"{path.relative_to(TESTS).as_posix()}::{one.name}"
            for one in body
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            and one.name.startswith("test_")
            and (whole or _SLOW in map(ast.unparse, one.decorator_list))
        )
    return frozenset(found)


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


def seldom_tested() -> list[str]:
    """Return the rows that have tests, but none that is in the usual run."""
    found, slow = named(), slow_tests()
    tests = {row: {*found.get(row, ()), *ELSEWHERE.get(row, ())} for row in ROWS}
    return [row for row, of_row in tests.items() if of_row and of_row <= slow]


def report() -> Iterator[str]:
    """Yield a line for each group, and one for each row without a test, or with slow ones only."""
    found, missing = named(), untested()
    for group, (what, numbers) in GROUPS.items():
        rows = [f"{group}{number}" for number in numbers]
        count = sum(len(found.get(row, ())) + len(ELSEWHERE.get(row, ())) for row in rows)
        done = sum(row not in missing for row in rows)
        yield f"{group}  {what}: {done} of {len(rows)} rows, {count} tests"
    for row in missing:
        yield f"{row} has no test"
    for row in seldom_tested():
        yield f"{row} has slow tests only"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())
