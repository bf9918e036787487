"""The list of planted faults, by package: the change and the tests that must fail."""

from __future__ import annotations

from dataclasses import dataclass


class BadFault(Exception):
    """A fault that cannot be planted, or whose tests cannot be run."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of one module, and the tests that must fail with it.

    `module` is a path from the root of the project.  `old` stands in it exactly once.
    """

    name: str
    module: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted_in(self, text: str) -> str:
        """Return a module's text with the fault; raise BadFault if `old` is not in it once."""
        if (times := text.count(self.old)) != 1:
            raise BadFault(f"{self.module} has {self.old!r} {times} times, and not once")
        return text.replace(self.old, self.new)


_EVICTION = (
    "tests/xscl/test_joins_at_their_edges.py::test_eviction_keeps_what_a_later_document_may_meet"
)
_EDGES = "tests/xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge"
_BOUND = "tests/xscl/engine/test_result_bound.py"
_IDS = "tests/xscl/documents/test_document_ids.py"
_NAMES = "tests/xscl/documents/test_document_names.py"
_TEXTS = "tests/xscl/store/test_interned_texts.py"
_NEGATION = (
    "tests/cep_core/languages/test_edges_of_negation.py::test_what_is_negated_cancels_at_each_edge"
)
_CALENDARS = "tests/cep_core/test_calendars.py::"
_CORE = "tests/cep_core/test_engine.py"
_STORE_FILE = "tests/xscl/store/test_store_file.py"
_VISIBILITY = (
    "tests/xscl/service/test_visibility.py::test_w8_nothing_of_one_user_is_in_an_answer_to_another"
)
_ROWS = "tests/xscl/spark/test_document_rows.py"
_ITEMS = "tests/xscl/spark/test_feed_items.py"
_SPOOL_SOURCE = "tests/xscl/spark/test_spool_source.py"
_CATALOG = "tests/xscl/cli/test_catalog_commands.py"
_REBUILT = "tests/xscl/inspection/test_rebuilt_relations.py"
_GUARD = "tests/xscl/service/test_guard.py"

_LANGUAGE = (
    Fault(
        "an hour has 3,600 milliseconds",
        "xscl/time_format.py",
        '"h": 3_600_000_000,',
        '"h": 3_600_000,',
        ("tests/xscl/language/test_parser.py::test_durations",),
    ),
    Fault(
        "the limit of nesting is skipped",
        "xscl/language/limits.py",
        "if depth > MAX_DEPTH:",
        "if depth > 1000 * MAX_DEPTH:",
        ("tests/xscl/language/test_parser.py::test_what_is_too_complex_is_refused",),
    ),
)

_UNTYPED = "tests/xscl/test_values_without_a_type.py"
_VALUES = (
    Fault(
        "numbers without a type are ordered as texts",
        "cep_core/algebra/untyped.py",
        "        return left, right\n",
        "        return one, other\n",
        (
            f"{_UNTYPED}::test_an_order_in_a_block_is_that_between_documents",
            f"{_UNTYPED}::test_an_order_between_documents_is_that_of_what_both_values_are",
        ),
    ),
    Fault(
        "a number and a text are ordered as texts",
        "cep_core/algebra/untyped.py",
        "        return None\n    begin = ",
        "        return one, other\n    begin = ",
        (f"{_UNTYPED}::test_the_negation_of_an_order_holds_where_the_order_does_not",),
    ),
    Fault(
        "operators over time order values as texts",
        "xscl/planning/temporal_lowering.py",
        "if operator in ORDERS and self._is_untyped(left) and self._is_untyped(right):",
        "if operator == 0:",
        (f"{_UNTYPED}::test_what_is_in_order_ends_an_absence",),
    ),
    Fault(
        "amounts that are written differently are not warned of",
        "xscl/inspection/written_numbers.py",
        "    if _is_shortest(one) and _is_shortest(other):",
        "    if _is_shortest(one) or _is_shortest(other):",
        (
            "tests/xscl/inspection/test_written_numbers.py"
            "::test_numbers_that_are_written_differently_are_warned_of",
        ),
    ),
)

_SHREDDING = (
    Fault(
        "a tag that is not closed is text",
        "xscl/shredding/batch/known_markup.py",
        ' or text.count("<") > len(parts) // 2',
        "",
        ("tests/xscl/shredding/test_known_markup.py::test_all_else_is_left_to_the_parser",),
    ),
    Fault(
        "a CR is split as it is",
        "xscl/shredding/batch/known_markup.py",
        "{0x09, 0x0A}",
        "{0x09, 0x0A, 0x0D}",
        ("tests/xscl/shredding/test_known_markup.py::test_all_else_is_left_to_the_parser",),
    ),
    Fault(
        "a child step is taken for a descendant step",
        "xscl/shredding/automaton/structure.py",
        "range(node + 1, self.ends[node]) if descendant else self.children[node]",
        "range(node + 1, self.ends[node])",
        (
            "tests/xscl/shredding/test_lookup.py::test_what_is_looked_up_is_what_trying_every_node_finds",
        ),
    ),
    Fault(
        "an open bound belongs to its interval",
        "xscl/shredding/conditions/intervals.py",
        "(greatest == self.low and not self.low_open)",
        "(greatest == self.low)",
        ("tests/xscl/shredding/test_index.py::test_intervals_are_those_that_numbers_keep",),
    ),
    Fault(
        "a comparison has to hold for all choices of values",
        "xscl/shredding/conditions/residual.py",
        "return lambda row: any(holds(one, other)",
        "return lambda row: all(holds(one, other)",
        ("tests/xscl/shredding/test_residual.py::test_worked_cases",),
    ),
    Fault(
        "a condition on a value is not tested",
        "xscl/shredding/nodes/tree.py",
        '">=": ge}',
        '">=": lambda left, right: True}',
        (_EDGES,),
    ),
)

_TEMPLATES = (
    Fault(
        "value joins at the end of the longest window are not made",
        "templates/state/value_joins.py",
        "(abs(gap) <= self.bounds.window)",
        "(abs(gap) < self.bounds.window)",
        (
            "tests/templates/test_value_joins.py"
            "::test_documents_are_joined_up_to_the_longest_window",
        ),
    ),
    Fault(
        "templates do not tell operators apart",
        "templates/model/template.py",
        "(*neighbours[one].get(other, ()), edge.operator)",
        '(*neighbours[one].get(other, ()), "=")',
        ("tests/templates/test_template.py::test_operators_and_outputs_distinguish_templates",),
    ),
    Fault(
        "an embedding does not keep parents",
        "templates/model/template.py",
        "        if (None if parent is None else taken[parent]) != "
        "self.minor.nodes[node].parent:\n            return False\n",
        "",
        ("tests/templates/test_template.py::test_equal_branches_keep_their_own_leaves",),
    ),
    Fault(
        "in SQL a window of FOLLOWED BY is without its end",
        "templates/sql/conjunctive.py",
        "AND {gap} <= t.wl",
        "AND {gap} < t.wl",
        (_EDGES,),
    ),
    Fault(
        "in SQL a window of JOIN is without its end",
        "templates/sql/conjunctive.py",
        "ABS({gap}) <= t.wl",
        "ABS({gap}) < t.wl",
        (_EDGES,),
    ),
    Fault(
        "in SQL FOLLOWED BY takes documents of the same time",
        "templates/sql/conjunctive.py",
        "{lead} > 0",
        "{lead} >= 0",
        (_EDGES,),
    ),
    Fault(
        "an instant occurs at its time, not when the clock has passed it",
        "cep_core/algebra/calendars.py",
        "            if second >= end:",
        "            if second > end:",
        (f"{_CALENDARS}test_an_instant_belongs_to_the_time_from_which_it_is_asked_for",),
    ),
    Fault(
        "a gap of a time zone swallows an instant",
        "cep_core/algebra/calendars.py",
        "return [] if by_real_time else [self._end_of_gap(second, first)]",
        "return []",
        (f"{_CALENDARS}test_gaps_and_repeats",),
    ),
    Fault(
        "instants occur after the event that passes them",
        "cep_core/runtime/intake.py",
        "                if t1 > instant:",
        "                if t1 > instant < 0:",
        (f"{_CALENDARS}test_instants_are_events_that_are_pushed_in_time",),
    ),
    Fault(
        "all instants of a calendar are one thing to a match",
        "xscl/planning/operators/instants.py",
        " + second)",
        ")",
        ("tests/xscl/engine/test_calendars.py::test_two_instants_are_two_matches",),
    ),
    Fault(
        "a query is tried without the instants of the time",
        "xscl/engine/trials.py",
        "twin.occur(begin, min(trial.end, clock))",
        "pass",
        (
            "tests/xscl/engine/test_calendars.py::test_a_query_with_a_calendar_is_tried_and_explained",
        ),
    ),
    Fault(
        "no beat is written for an instant",
        "xscl/subscriptions/streams.py",
        "        if is_calendar(stream):\n            return True\n",
        "",
        ("tests/xscl/engine/test_calendars.py::test_instants_occur_while_nothing_comes",),
    ),
    Fault(
        "in SQL inequalities are dropped",
        "templates/sql/conjunctive.py",
        "for sign, left, right in query.compared]",
        "for sign, left, right in query.compared if sign == '=']",
        (_EDGES,),
    ),
    Fault(
        "in SQL a document is kept for ever",
        "templates/sql/conjunctive.py",
        " END AND {age} <= t.keep)",
        " END)",
        (_EDGES,),
    ),
    Fault(
        "in memory a window of FOLLOWED BY is without its end",
        "templates/smallbatch/evaluator.py",
        "followed = (lead > 0) & (gap <= window)",
        "followed = (lead > 0) & (gap < window)",
        (_EDGES,),
    ),
    Fault(
        "in memory FOLLOWED BY takes documents of the same time",
        "templates/smallbatch/evaluator.py",
        "followed = (lead > 0) & (gap <= window)",
        "followed = (lead >= 0) & (gap <= window)",
        (_EDGES,),
    ),
    Fault(
        "in memory inequalities are dropped",
        "templates/smallbatch/evaluator.py",
        "rows, bound = rows[differ], chosen(bound, differ)",
        "",
        (_EDGES,),
    ),
    Fault(
        "in memory a document is kept for ever",
        "templates/smallbatch/evaluator.py",
        'found: Column = holds & (times["age"] <= rows["keep"])',
        "found: Column = holds",
        (_EDGES,),
    ),
    Fault(
        "a document meets itself",
        "templates/state/value_joins.py",
        '(one["base"] != other["base"]) & (abs(gap) <= self.bounds.window)',
        "abs(gap) <= self.bounds.window",
        (_EDGES,),
    ),
    Fault(
        "join state is never evicted",
        "templates/state/join_state.py",
        "return self._left > PUSHES * added and SHARE * self._left >= self._kept",
        "return False",
        ("tests/xscl/engine/test_engine.py::test_windows_free_the_state",),
    ),
    Fault(
        "join state is evicted a tick too early",
        "templates/state/join_state.py",
        "(ts >= clock - keep)",
        "(ts > clock - keep)",
        (_EVICTION,),
    ),
    Fault(
        "stored join state is evicted a tick too early",
        "templates/state/stored_state.py",
        ">= clock - keep)\n            return alive",
        "> clock - keep)\n            return alive",
        (_EVICTION,),
    ),
    Fault(
        "the bound of results allows one more",
        "templates/model/result_bound.py",
        "size > most or group in every",
        "size > most + 1 or group in every",
        (f"{_BOUND}::test_results_of_several_rounds_count_together",),
    ),
    Fault(
        "an enumeration beyond the bound of results is all there is",
        "templates/bound/bounded_answers.py",
        "one, relations), self.most + 1)",
        "one, relations), self.most)",
        (f"{_BOUND}::test_two_small_documents_with_millions_of_answers",),
    ),
    Fault(
        "parts of a heavy document are not counted together",
        "templates/batch_join.py",
        "                if self._one_by_one:\n",
        "                if not self._one_by_one:\n",
        (f"{_BOUND}::test_of_a_heavy_document_nothing_is_asked_beyond_the_bound",),
    ),
    Fault(
        "a heavy document is the newcomer of what arrived later",
        "templates/state/value_joins.py",
        "gone & (ranks < rank)",
        "gone",
        (f"{_BOUND}::test_a_heavy_composite_does_not_end_the_joins_of_a_later_document",),
    ),
    Fault(
        "each round of a batch is bounded by itself",
        "xscl/planning/operators/joins.py",
        "later = [qid for qid, place in places.items() if place > first]",
        "later: list[int] = []",
        (f"{_BOUND}::test_results_of_several_rounds_count_together",),
    ),
)

_CEP_CORE = (
    Fault(
        "an absence that is due at the next tick is not prepared",
        "cep_core/operators/cayuga/absence.py",
        "        if now + 1 in self._due:\n            self._lane.prepare(now + 1, self)\n",
        "",
        ("tests/cep_core/test_absence.py::test_finish_prepares_in_each_epoch",),
    ),
    Fault(
        "a row at exactly the lateness is late",
        "cep_core/dataflow/clock.py",
        "        if time < watermark:\n            self._late",
        "        if time <= watermark:\n            self._late",
        (f"{_CORE}::test_within_the_lateness_order_of_arrival_does_not_matter",),
    ),
    Fault(
        "instances are never evicted",
        "cep_core/operators/cayuga/state.py",
        "self._lane.evict_at(self._eviction, self)",
        "pass",
        (f"{_CORE}::test_dead_instances_are_dropped_by_the_watermark",),
    ),
    Fault(
        "of simultaneous successors the last one is taken",
        "cep_core/operators/eql/succession.py",
        "if first is None or rank < first.rank:",
        "if first is None or rank > first.rank:",
        ("tests/cep_core/languages/test_eql.py::test_next_of_intervals_is_not_that_of_cel",),
    ),
    Fault(
        "an absence ends with its left row",
        "cep_core/operators/cayuga/absence.py",
        "self._output.emit((begin, now, *row[2:]), members)",
        "self._output.emit((begin, row[1], *row[2:]), members)",
        (f"{_CORE}::test_an_absence_is_certain_when_the_epoch_of_its_deadline_is_closed",),
    ),
    Fault(
        "a snapshot does not know what was answered",
        "cep_core/operators/cayuga/absence.py",
        "int(id(kept) in due.answered)",
        "0",
        (f"{_CORE}::test_a_snapshot_knows_what_is_answered_and_every_deadline",),
    ),
    Fault(
        "a window join is without the end of its window",
        "cep_core/operators/cayuga/join.py",
        "apart <= cast(int, operator.wanted.window)",
        "apart < cast(int, operator.wanted.window)",
        (f"{_CORE}::test_a_window_join_meets_what_is_kept_on_either_side",),
    ),
    Fault(
        "an event joins with itself",
        "cep_core/operators/cayuga/join.py",
        "if fits and not (same and one.simple and other.simple):",
        "if fits:",
        (f"{_CORE}::test_a_window_join_meets_what_is_kept_on_either_side",),
    ),
    Fault(
        "what is negated does not cancel in its last tick",
        "cep_core/operators/pattern/matching.py",
        "            if row[1] > newest:",
        "            if row[1] >= newest:",
        (_NEGATION,),
    ),
    Fault(
        "aggregates of different registrations are one",
        "cep_core/plan/rules.py",
        "    return wanted\n",
        '    return wanted._replace(since=None) if "aggregate" in wanted.kind else wanted\n',
        (f"{_CORE}::test_aggregates_of_later_registrations_begin_anew",),
    ),
    Fault(
        "predicates are pushed below contiguity",
        "cep_core/plan/predicate_pushdown.py",
        'return node if marks & {"strict", "partition"} else',
        'return node if marks & {"none"} else',
        (
            "tests/cep_core/languages/test_sase.py"
            "::test_a_condition_on_one_event_does_not_make_others_contiguous",
        ),
    ),
    Fault(
        "null equals null",
        "cep_core/dataflow/predicates.py",
        "return all(v is not None and v == v for v in (key if several else (key,)))",
        "return True",
        ("tests/cep_core/test_sameness.py::test_nothing_equals_null_in_a_state",),
    ),
)

_PATTERN_CASES = "tests/cep_core/test_pattern_matches.py::"
_PATTERNS = _PATTERN_CASES + "test_the_engine_agrees_with_the_definitions_often"
_FIRST_EVENTS = "tests/cep_core/languages/test_first_events.py::"
_EQL_PATTERNS = "tests/cep_core/languages/test_eql_patterns.py::test_what_a_pattern_finds"
_CONSTANTS = (
    "tests/cep_core/test_constant_index.py::test_a_monotone_condition_is_tested_a_few_times"
)
_PATTERNS_TOGETHER = (
    _PATTERN_CASES + "test_an_event_ends_a_step_only_for_the_queries_that_select_it"
)

_OF_PATTERNS = (
    Fault(
        "an event between does not end a step with next",
        "cep_core/algebra/pattern_automaton.py",
        "            between.add(number)",
        "            between.discard(number)",
        (_PATTERNS,),
    ),
    Fault(
        "a greedy run prefers to end",
        "cep_core/algebra/pattern_automaton.py",
        'paces[loop] == "greedy" for loop in way.leaves & other.stays',
        'paces[loop] == "greedy" for loop in way.stays & other.leaves',
        (_PATTERNS,),
    ),
    Fault(
        "an event of UNTIL between does not end a run",
        "cep_core/algebra/pattern_automaton.py",
        "            if begun:\n",
        "            if not begun:\n",
        (_PATTERNS,),
    ),
    Fault(
        "greedy waits for an event that UNTIL keeps out of the run",
        "cep_core/operators/pattern/matching.py",
        "                    mask &= ~stopped.get(component, 0)\n                if mask:",
        "                    mask &= ~0\n                if mask:",
        (_FIRST_EVENTS + "test_a_run_that_until_has_ended_blocks_nothing",),
    ),
    Fault(
        "a condition that handles null does not ask the first event of a run",
        "cep_core/algebra/patterns.py",
        "    return bool(before) and not (counts or",
        "    return bool(before) or not (counts or",
        (_FIRST_EVENTS + "test_the_first_event_of_a_run_of_sase",),
    ),
    Fault(
        "an event that fails a test of a pattern is skipped",
        "cep_core/operators/pattern/conditions.py",
        "return self._by_component(self.conjuncts, True)",
        "return self._by_component([*self.conjuncts, *self._tests], True)",
        (_EQL_PATTERNS,),
    ),
    Fault(
        "a condition of EQL on a run and others reads each event",
        "cep_core/languages/eql/pattern_queries.py",
        'role: Role = "current" if each else "last"',
        'role: Role = "current"',
        (_EQL_PATTERNS,),
    ),
    Fault(
        "a strict step takes whatever is between",
        "cep_core/algebra/pattern_automaton.py",
        'strict |= bit * (own == "strict")',
        'strict |= bit * (own == "partition")',
        (_PATTERNS,),
    ),
    Fault(
        "the window of a pattern includes its end",
        "cep_core/operators/query_masks.py",
        "            if distance < window:",
        "            if distance <= window:",
        (_PATTERNS,),
    ),
    Fault(
        "a condition changes one constant later than the index says",
        "cep_core/dataflow/constant_index.py",
        "block * self._stride : place]",
        "block * self._stride : place + 1]",
        (_CONSTANTS,),
    ),
    Fault(
        "a sequence is for the queries that select one of its rows",
        "cep_core/operators/pattern/construction.py",
        "(w0 := w1 & q0)",
        "(w0 := w1 | q0)",
        ("tests/cep_core/languages/test_sase.py::test_a_snapshot_says_who_selects_each_row",),
    ),
    Fault(
        "a condition on a later event chooses the nearest of an earlier component",
        "cep_core/operators/pattern/partitions.py",
        "(plain or one.component < other.component)",
        "(plain or one.component != other.component)",
        ("tests/cep_core/test_patterns.py::test_the_partitions_of_a_condition",),
    ),
    Fault(
        "the bound of AND includes its end",
        "cep_core/operators/pattern/matching.py",
        "            if distance < constants[place]:",
        "            if distance <= constants[place]:",
        (_PATTERNS,),
    ),
    Fault(
        "an absence looks at what ends with the next event",
        "cep_core/operators/pattern/matching.py",
        "newest = now if gap.before is None else gap.before - 1",
        "newest = now if gap.before is None else gap.before + 1",
        (_NEGATION,),
    ),
    Fault(
        "past last keeps what begins with the last event",
        "cep_core/operators/pattern/policies.py",
        '"past last":\n                self._discarded.append(Discarded(mask, first, last, True)',
        '"past last":\n                self._discarded.append(Discarded(mask, first, last, False)',
        (_PATTERNS,),
    ),
    Fault(
        "a policy forgets the runs that go on",
        "cep_core/operators/pattern/matching.py",
        "        if discards:\n            self._drop(policies.left, discards)\n",
        "",
        (_PATTERNS,),
    ),
    Fault(
        "what ends for one query ends for all",
        "cep_core/operators/pattern/matching.py",
        "((moves, mask & ending), (0, mask & ~ending))",
        "((moves, mask), (0, 0))",
        (_PATTERNS_TOGETHER,),
    ),
)

_FEEDS = (
    Fault(
        "one public address of a name is enough",
        "feeds/http/addresses.py",
        "not all(map(is_public, addresses))",
        "not any(map(is_public, addresses))",
        (
            "tests/feeds/test_fetch.py"
            "::test_a_host_is_resolved_once_and_one_private_address_is_enough_to_refuse",
        ),
    ),
    Fault(
        "private addresses are fetched",
        "feeds/http/addresses.py",
        "return None if is_public(meant) else _private(parsed)",
        "return None",
        (
            "tests/feeds/test_addresses.py"
            "::test_w1_w2_networks_of_the_table_are_refused_in_every_form",
        ),
    ),
    Fault(
        "secrets follow redirects",
        "feeds/http/fetch.py",
        "own = state.headers if _is_at_home(target.url, state) else ()",
        "own = state.headers",
        ("tests/feeds/test_fetch.py::test_secrets_stay_with_their_origin_and_are_never_shown",),
    ),
    Fault(
        "an unpacked body has no limit",
        "feeds/http/body.py",
        "            if size > largest:\n                raise",
        "            if size > 1000 * largest:\n                raise",
        ("tests/feeds/test_fetch.py::test_f1_gzip_bomb_stops_at_the_limit",),
    ),
    Fault(
        "a document may be one level too deep",
        "feeds/xml/xmlparse.py",
        "if depth > limits.depth:",
        "if depth > limits.depth + 1:",
        ("tests/feeds/test_xmlparse.py::test_smaller_depths_are_counted",),
    ),
    Fault(
        "entity declarations are taken",
        "feeds/xml/xmlparse.py",
        'if token[0] == b"<!ENTITY":',
        'if token[0] == b"<!ENTITIES":',
        ("tests/feeds/test_xmlparse.py::test_x1_x2_entity_declarations_are_refused",),
    ),
    Fault(
        "one bad byte makes a feed Windows-1252",
        "feeds/xml/encoding.py",
        "return not bad or (good > 0 if declared else good >= bad)",
        "return not bad",
        (
            "tests/feeds/test_encoding.py"
            "::test_a_bad_byte_changes_no_other_item_and_is_a_replacement_character",
        ),
    ),
    Fault(
        "an entry of nothing is stored",
        "feeds/formats/entries.py",
        "return not any(getattr(",
        "return False and any(getattr(",
        ("tests/feeds/test_damaged_feeds.py::test_an_entry_of_which_nothing_is_known_is_no_item",),
    ),
    Fault(
        "items that only feedparser finds are lost",
        "feeds/formats/parse.py",
        "if found is not None and _count(found) > _count(channel):",
        "if channel is None and found is not None:",
        ("tests/feeds/test_damaged_feeds.py::test_damage_loses_no_item_that_feedparser_finds",),
    ),
    Fault(
        "a first answer that is no feed is followed",
        "xscl/polling/lifecycle.py",
        "if feed.error is None or feed.polls or",
        "if feed.error or feed.polls or",
        ("tests/xscl/service/test_first_answers.py::test_what_is_no_feed_is_refused",),
    ),
    Fault(
        "other authors are no new version of an item",
        "feeds/formats/identity.py",
        '        *[("author", plain(name)) for name in entry.authors],\n',
        "",
        ("tests/feeds/test_items.py::test_each_part_counts_for_the_version",),
    ),
    Fault(
        "a feed is asked before its Retry-After",
        "feeds/http/schedule.py",
        "int(max(jittered, least) * _SECOND)",
        "int(jittered * _SECOND)",
        (
            "tests/feeds/test_schedule.py"
            "::test_f11_jitter_brings_no_feed_before_the_time_that_its_server_asked_for",
        ),
    ),
    Fault(
        "scripts are links",
        "feeds/formats/display.py",
        "url_schemes=set(SCHEMES),",
        'url_schemes={*SCHEMES, "javascript"},',
        ("tests/feeds/test_display.py::test_w9_nothing_that_runs_or_deceives_is_left",),
    ),
    Fault(
        "a segment is acknowledged before its name is durable",
        "feeds/spool.py",
        '            _synchronise(self.directory)\n        reached("spool_synced")',
        '            pass\n        reached("spool_synced")',
        (
            "tests/feeds/test_spool.py"
            "::test_nothing_is_visible_before_the_directory_is_synchronised",
        ),
    ),
    Fault(
        "the checksum of a segment is not compared",
        "feeds/spool_files.py",
        " and zlib.crc32(body) == entry.crc32",
        "",
        ("tests/feeds/test_spool.py::test_no_changed_byte_goes_unnoticed",),
    ),
)

_BROKEN = "tests/xscl/store/test_broken_backups.py"

_ENGINE_AND_STORE = (
    Fault(
        "a commit is not marked",
        "xscl/store/database.py",
        "self._file.mark._replace(commits=self.commits)",
        "self._file.mark",
        (f"{_STORE_FILE}::test_a_removed_log_is_noticed",),
    ),
    Fault(
        "a batch of a consumer counts twice",
        "xscl/documents/consumed_offsets.py",
        "        if last is None or batch.batch_id > last:\n            return False\n",
        "        if last is not None:\n            return False\n",
        ("tests/xscl/engine/test_engine.py::test_a_batch_of_a_consumer_counts_once",),
    ),
    Fault(
        "the same document again is a new version",
        "xscl/documents/document_log.py",
        "if versions is not None and versions.has(streams, digest):",
        "if versions is None and at < 0:",
        ("tests/xscl/engine/test_engine.py::test_the_same_document_again_changes_nothing",),
    ),
    Fault(
        "documents of two streams with one id are versions",
        "xscl/documents/document_ids.py",
        "    return some == others or not set(some).isdisjoint(others)",
        "    return True",
        (
            f"{_IDS}::test_documents_of_two_streams_with_one_id_are_joined",
            f"{_IDS}::test_a_document_is_sent_again_to_the_stream_it_was_meant_for",
        ),
    ),
    Fault(
        "a text is known by its key alone",
        "templates/columns/values.py",
        "rows[at[found == checks[rows[at]]]]",
        "rows[at]",
        ("tests/templates/test_values.py::test_equal_keys_mean_equal_texts",),
    ),
    Fault(
        "a text stays known when it has left",
        "templates/columns/values.py",
        '            self._checks.remove(distinct(gone["key"].to_numpy()))',
        "            pass",
        ("tests/templates/test_values.py::test_a_key_that_was_swept_stands_for_the_next_text",),
    ),
    Fault(
        "an absence is certain at the clock of late streams",
        "xscl/planning/dataflow.py",
        "return max(clock - lateness, ",
        "return max(clock, ",
        ("tests/xscl/inspection/test_diagnosis.py::test_an_absence_waits_for_late_answers",),
    ),
    Fault(
        "a replay gives documents bases of their own",
        "xscl/shredding/arrivals.py",
        'numbers("base")',
        'numbers("doc")',
        (f"{_IDS}::test_a_past_has_the_ids_and_the_bases_of_the_documents",),
    ),
    Fault(
        "an id of several documents means one of them",
        "xscl/documents/document_names.py",
        "    if len(chosen) > 1:\n        listed",
        "    if len(chosen) > 2:\n        listed",
        (f"{_NAMES}::test_an_id_of_two_streams_is_an_error_that_lists_them",),
    ),
    Fault(
        "an id that ends like a name of a version is its own name",
        "xscl/documents/document_ids.py",
        'if number == 1 and not ("@" in id and VERSIONED.fullmatch(id)):',
        "if number == 1:",
        (
            f"{_NAMES}::test_names_are_unique",
            f"{_NAMES}::test_names_and_matches_do_not_depend_on_the_order_among_streams",
        ),
    ),
    Fault(
        "texts leave that are still referred to",
        "xscl/engine/eviction.py",
        "stays = np.isin(docs, self._referred(numbered))",
        "stays = np.zeros(len(docs), np.bool_)",
        ("tests/xscl/engine/test_retention.py::test_no_retention_changes_a_match",),
    ),
    Fault(
        "a subscription sees what came before it",
        "xscl/subscriptions/matches.py",
        "if s.since <= first\n            and s.covers(",
        "if s.covers(",
        (
            "tests/xscl/inspection/test_backfill.py::test_it_joins_later_documents_with_earlier_ones",
        ),
    ),
    Fault(
        "updates reach those who did not ask for them",
        "xscl/subscriptions/matches.py",
        "and (s.updates or not updated)",
        "",
        (
            "tests/xscl/engine/test_engine.py::test_a_new_version_reaches_those_who_asked_for_updates",
        ),
    ),
    Fault(
        "the id of a match does not depend on its nodes",
        "xscl/subscriptions/match.py",
        ', *(f"{name}={node}" for (_, name), node in named)])',
        "])",
        (
            "tests/xscl/engine/test_engine.py::test_matches_of_the_same_documents_have_ids_of_their_own",
        ),
    ),
    Fault(
        "copied elements keep the text behind them",
        "xscl/subscriptions/construct.py",
        "        copied.tail = None\n",
        "",
        ("tests/xscl/engine/test_engine.py::test_constructed_documents",),
    ),
    Fault(
        "a document that came late is not told",
        "xscl/subscriptions/lateness.py",
        "return window + late + 1",
        "return window + late",
        (
            "tests/xscl/subscriptions/test_late.py::test_the_earlier_side_is_late_when_no_partner_is_kept",
        ),
    ),
    Fault(
        "the manifest of a backup is not compared with its checksum",
        "xscl/engine/backup.py",
        "if stated != _sum_of(read):",
        "if stated is False:",
        (f"{_BROKEN}::test_c18_every_flipped_bit_of_the_manifest_is_noticed",),
    ),
    Fault(
        "an export has no headers of feeds",
        "xscl/service/registrations.py",
        '(*filled["headers"], *user)',
        "user",
        ("tests/xscl/service/test_registrations.py::test_an_export_has_what_was_imported",),
    ),
    Fault(
        "segments of a backup are not compared",
        "xscl/service/restore.py",
        "there.get(number, found) == found",
        "number > 0",
        ("tests/xscl/store/test_backup.py::test_a_spool_of_another_store_is_set_aside",),
    ),
    Fault(
        "a history follows the numbers of what operators over time have published",
        "xscl/inspection/arrival_order.py",
        "    places[timed] = np.minimum(docs[timed], passing)",
        "    places[timed] = docs[timed]",
        (
            "tests/xscl/engine/test_histories.py"
            "::test_what_two_publishers_make_is_read_in_the_order_of_time",
        ),
    ),
)

_SERVICE = (
    Fault(
        "the positions of deliveries are not written",
        "xscl/delivery/outbox/endpoints.py",
        "                self._write(changed, letters)",
        "                pass",
        ("tests/xscl/delivery/test_webhooks.py::test_a_restart_goes_on_where_the_last_one_was",),
    ),
    Fault(
        "the signature of a webhook does not cover its time",
        "xscl/delivery/channels/signature.py",
        'f"{id}.{timestamp}."',
        'f"{id}."',
        ("tests/xscl/delivery/test_signature.py::test_w13_published_vector",),
    ),
    Fault(
        "matches of other users are one's own",
        "xscl/service/accounts.py",
        "return name if number == self.number else None",
        "return name",
        ("tests/xscl/service/test_events.py::test_w8_events_are_ones_own",),
    ),
    Fault(
        "in SQL subscriptions of other users are one's own",
        "xscl/store/queries/visible_rows.py",
        'return "true" if number == OPERATOR else f"starts_with({name}, \'_{number}.\')"',
        'return "true"',
        ("tests/xscl/service/test_sql.py::test_s6_nothing_of_others_is_in_any_relation",),
    ),
    Fault(
        "the quota of documents is not checked",
        "xscl/service/usage.py",
        'self._done["documents"].consume(account.number, most)',
        'self._done["documents"].consume(account.number, None)',
        ("tests/xscl/service/test_documents.py::test_a_quota_of_documents",),
    ),
    Fault(
        "the rate of requests is not limited",
        "xscl/limiter.py",
        "is_allowed = level >= 1.0",
        "is_allowed = True",
        ("tests/xscl/test_limiter.py::test_a_bucket_is_full_after_a_minute_and_fills_evenly",),
    ),
    Fault(
        "any host name is taken",
        "xscl/service/guard.py",
        "        _check_host(headers, self._settings)\n",
        "",
        (f"{_GUARD}::test_w11_a_name_that_was_rebound_is_refused",),
    ),
    Fault(
        "pages of other sites may change things",
        "xscl/service/guard.py",
        "            _check_origin(headers)\n",
        "            pass\n",
        (f"{_GUARD}::test_w11_what_other_sites_send_is_refused",),
    ),
    Fault(
        "revoked tokens stay valid",
        "xscl/service/tokens.py",
        "if name not in (other, known[0].parent)",
        "if name",
        (f"{_GUARD}::test_w7_no_wrong_revoked_and_changed_tokens",),
    ),
    Fault(
        "user SQL may call any function",
        "xscl/service/sql/check.py",
        "_FORBIDDEN.fullmatch(name.lower())",
        '_FORBIDDEN.fullmatch("")',
        ("tests/xscl/service/test_sql.py::test_s6_no_setting_no_path_no_catalog",),
    ),
    Fault(
        "pages do not escape what they show",
        "xscl/web/rendering.py",
        "autoescape=True,",
        "autoescape=False,",
        ("tests/xscl/web/test_pages.py::test_w9_tricks_are_shown_as_text",),
    ),
)

_SPARK = (
    Fault(
        "expired witnesses of joins on executors are shown",
        "xscl/inspection/witness_reach.py",
        "(ts >= clock - keep[pairs])",
        "(ts <= clock)",
        (f"{_REBUILT}::test_rows_that_nothing_can_join_any_more_are_not_shown",),
    ),
    Fault(
        "joins on executors have results from before they were there",
        "xscl/inspection/rebuilt_relations.py",
        "_without(found.answers, newer)",
        "_without(found.answers, [])",
        (f"{_REBUILT}::test_a_join_that_is_newer_than_the_last_push_has_no_results",),
    ),
    Fault(
        "a row whose clock is out of range is a document",
        "xscl/spark/document_rows.py",
        "if name in row and not least <= row[name] <= greatest:",
        "if name in row and row[name] < least:",
        (f"{_ROWS}::test_numbers_and_clocks_are_in_range",),
    ),
    Fault(
        "an id that is no UTF-8 reaches the join",
        "xscl/spark/document_rows.py",
        "separate_invalid(documents if plain else list(documents))",
        "separate_invalid(documents)",
        (f"{_ROWS}::test_texts_that_are_no_utf8_end_no_task",),
    ),
    Fault(
        "items of a DataFrame have the address of their feed with its secrets",
        "xscl/spark/feed_items.py",
        "public(url.encode().decode())",
        "url.encode().decode()",
        (f"{_ITEMS}::test_bodies_that_cannot_be_read_are_rows_with_the_reason",),
    ),
    Fault(
        "an executor takes another directory of the same name for the catalog",
        "xscl/spark/probe.py",
        'if int(current.read_text("ascii")) < version:',
        'if int(current.read_text("ascii")) < 0:',
        ("tests/xscl/spark/test_jobs.py::test_a_probe_says_what_is_wrong_where",),
    ),
    Fault(
        "a catalog that is opened again drops what was accepted with a window INF",
        "xscl/spark/catalog.py",
        "if one.key in self._writer.keys",
        "if one.key == self._writer.keys",
        (f"{_CATALOG}::test_a_window_without_end_needs_consent_once",),
    ),
    Fault(
        "shares of a micro-batch differ in size",
        "xscl/spark/spool_source.py",
        "room -= end - begin",
        "room -= 1",
        (f"{_SPOOL_SOURCE}::test_shares_are_equal_and_in_order",),
    ),
    Fault(
        "results of executors ignore the clock of an arrival",
        "xscl/engine/executors.py",
        "<= keeps[place]",
        "<= keeps[place] + 100",
        (f"{_SPOOL_SOURCE}::test_results_of_executors_are_those_of_an_engine",),
    ),
    Fault(
        "executors join versions of one document",
        "xscl/engine/executors.py",
        "stays[stays] = ~_are_versions(",
        "stays[stays] = True | _are_versions(",
        (f"{_SPOOL_SOURCE}::test_results_of_executors_are_those_of_an_engine",),
    ),
    Fault(
        "texts that executors get at a start are not kept",
        "xscl/engine/eviction.py",
        "if not self._everything and self._oldest_elsewhere >= INFINITE:",
        "if not self._everything:",
        (f"{_SPOOL_SOURCE}::test_c12_what_executors_have_left_decides_nothing",),
    ),
)
_STORE = "tests/xscl/store/test_store.py"
_DURABLE_STORE = (
    Fault(
        "a commit is not synchronised",
        "xscl/store/store_file.py",
        '"synchronous = FULL",',
        '"synchronous = NORMAL",',
        ("tests/xscl/store/test_store_disk.py::test_a_loss_of_power_loses_nothing",),
    ),
    Fault(
        "a second connection writes",
        "xscl/store/database.py",
        "if self._other_commits() != self._version:",
        "if self._other_commits() < 0:",
        (f"{_STORE}::test_another_writing_connection_is_found",),
    ),
    Fault(
        "a reader may write",
        "xscl/store/store_file.py",
        'READING = ("query_only = ON", ',
        "READING = (",
        (f"{_STORE}::test_a_reader_writes_nothing_but_in_a_transaction",),
    ),
    Fault(
        "small chunks are merged across a large one",
        "xscl/store/chunks.py",
        "self._small[relation] = [] if added.size >= LARGE else [*self._small[relation], added]",
        "self._small[relation] += [] if added.size >= LARGE else [added]",
        ("tests/xscl/store/test_chunks.py::test_a_relation_is_a_list",),
    ),
    Fault(
        "no checkpoint waits for readers",
        "xscl/store/database.py",
        "apsw.SQLITE_CHECKPOINT_RESTART\n",
        "apsw.SQLITE_CHECKPOINT_PASSIVE\n",
        (f"{_STORE}::test_the_log_stays_small_under_readers_that_overlap",),
    ),
    Fault(
        "a reader that does not end is not ended",
        "xscl/store/database.py",
        "if self._since is None or not (every or self._is_late()):",
        "if True:",
        (f"{_STORE}::test_a_reader_that_does_not_end_is_ended",),
    ),
    Fault(
        "a mirror misses changed rows",
        "xscl/store/queries/mirrors.py",
        "if mirror is not None and self._changed[name] <= mirror.commits <= commits:",
        "if mirror is not None and mirror.commits <= commits:",
        ("tests/xscl/store/queries/test_mirrors.py::test_a_mirror_has_what_the_table_has",),
    ),
    Fault(
        "a removed log is not noticed",
        "xscl/store/store_file.py",
        "if mark is not None and now.commits < mark.commits:",
        "if mark is not None and now.commits < 0:",
        (f"{_STORE_FILE}::test_a_removed_log_is_noticed",),
    ),
)

FAULTS = (
    *(_LANGUAGE + _VALUES + _SHREDDING + _TEMPLATES),
    *(_CEP_CORE + _OF_PATTERNS + _FEEDS),
    *(_ENGINE_AND_STORE + _DURABLE_STORE + _SERVICE + _SPARK),
)
