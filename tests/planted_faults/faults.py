"""The table of planted faults, by module: the change and the tests that must fail.

    @ a module, for all faults up to the next one
    = the name of a fault
    - the text that stands in the module exactly once, on lines of their own
    + the text in its place; without such a line there is none
    ? a test below `tests/` that must fail with it; `:: NAME` names it below its file

A text that is a part of one line needs no indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def read(table: str) -> Iterator[Fault]:
    """Yield the faults of a table."""
    for section in re.split(r"^@ ", table, flags=re.MULTILINE)[1:]:
        module, *faults = re.split(r"\n= ", section.rstrip("\n"))
        for fault in faults:
            name, *lines = fault.replace("\n:: ", "::").split("\n")
            parts = {mark: [one[2:] for one in lines if one[:1] == mark] for mark in "-+?"}
            tests = tuple(f"tests/{one}" for one in parts["?"])
            yield Fault(name, module, "\n".join(parts["-"]), "\n".join(parts["+"]), tests)


TABLE = r"""
@ xscl/time_format.py
= an hour has 3,600 milliseconds
- "h": 3_600_000_000,
+ "h": 3_600_000,
? xscl/language/test_parser.py::test_durations

@ xscl/language/limits.py
= the limit of nesting is skipped
- if depth > MAX_DEPTH:
+ if depth > 1000 * MAX_DEPTH:
? xscl/language/test_parser.py::test_what_is_too_complex_is_refused

@ xscl/language/constants.py
= constants are put in a plan whose conditions have another order
- return form if form(last) == other and form(constants) == whole(()) else None
+ return form
? xscl/planning/test_compile.py::test_a_shape_gives_what_the_query_itself_gives

@ xscl/language/blocks.py
= a step is read without its axis
- ("attribute" if sign == "@" else sign) if axis else "child",
+ ("attribute" if sign == "@" else "child") if axis else "child",
? xscl/language/test_parser.py::test_messages
= a union takes in a block of another stream
- elif is_token(before, "UNION") and child != stream:
+ elif is_token(before, "UNION") and not child:
? xscl/language/test_parser.py::test_messages

@ xscl/language/grammar.py
= a bracket ends at the first sign that could close it
-             pending.append(_CLOSES[sign])
+             pending = [_CLOSES[sign]]
? xscl/language/test_parser.py::test_messages

@ cep_core/algebra/untyped.py
= numbers without a type are ordered as texts
- return left, right
+ return one, other
? xscl/test_values_without_a_type.py::test_an_order_in_a_block_is_that_between_documents
? xscl/test_values_without_a_type.py
:: test_an_order_between_documents_is_that_of_what_both_values_are
= a number and a text are ordered as texts
-         return None
-     begin =
+         return one, other
+     begin =
? xscl/test_values_without_a_type.py::test_the_negation_of_an_order_holds_where_the_order_does_not

@ xscl/language/lowering.py
= operators over time order values as texts
- untyped = self._is_untyped(left) and self._is_untyped(right)
+ untyped = False
? xscl/test_values_without_a_type.py::test_what_is_in_order_ends_an_absence

@ xscl/inspection/unseen_names.py
= amounts that are written differently are not warned of
- if _is_shortest(one) and _is_shortest(other):
+ if _is_shortest(one) or _is_shortest(other):
? xscl/inspection/test_written_numbers.py::test_numbers_that_are_written_differently_are_warned_of

@ xscl/shredding/automaton/nfa.py
= a place that has left is found by its definition
- del self._places[place.text]
+ pass
? xscl/shredding/test_index.py::test_a_place_gets_many_branches_and_loses_them_one_by_one

@ xscl/shredding/batch/known_markup.py
= a tag that is not closed is text
-  or text.count("<") > len(parts) // 2
? xscl/shredding/test_known_markup.py::test_all_else_is_left_to_the_parser
= a CR is split as it is
- {0x09, 0x0A}
+ {0x09, 0x0A, 0x0D}
? xscl/shredding/test_known_markup.py::test_all_else_is_left_to_the_parser

@ xscl/shredding/automaton/structure.py
= a child step is taken for a descendant step
- range(node + 1, self.ends[node]) if descendant else self.children[node]
+ range(node + 1, self.ends[node])
? xscl/shredding/test_lookup.py::test_what_is_looked_up_is_what_trying_every_node_finds

@ xscl/shredding/batch/shred.py
= documents of a second structure give their rows to those of the first
- first += [len(docs)] * len(together.rows)
+ first += [0] * len(together.rows)
? xscl/shredding/test_lookup.py::test_what_is_looked_up_is_what_trying_every_node_finds

@ templates/text/candidates.py
= short parts of a text are not looked up
- (one for one in LENGTHS if self._lengths[one])
+ (one for one in LENGTHS[:2] if self._lengths[one])
? templates/text/test_text_index.py::test_an_index_finds_what_compares

@ xscl/shredding/conditions/intervals.py
= an open bound belongs to its interval
- (greatest == self.low and not self.low_open)
+ (greatest == self.low)
? xscl/shredding/test_index.py::test_intervals_are_those_that_numbers_keep

@ xscl/language/lowering.py
= a comparison has to hold for all choices of values
- SOME: Function(any,
+ SOME: Function(all,
? xscl/shredding/test_residual.py::test_worked_cases

@ xscl/shredding/nodes/tree.py
= a condition on a value is not tested
- ">=": ge}
+ ">=": lambda left, right: True}
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge

@ templates/state/value_joins.py
= value joins at the end of the longest window are not made
- (gap <= bounds.upper)
+ (gap < bounds.upper)
? templates/test_value_joins.py::test_documents_are_joined_up_to_the_longest_window

@ templates/model/template.py
= templates do not tell operators apart
- (*neighbours[one].get(other, ()), edge.operator)
+ (*neighbours[one].get(other, ()), "=")
? templates/test_template.py::test_operators_and_outputs_distinguish_templates
= an embedding does not keep parents
-         if (None if parent is None else taken[parent]) != self.minor.nodes[node].parent:
-             return False
-
? templates/test_template.py::test_equal_branches_keep_their_own_leaves

@ templates/model/conjunctive_query.py
= in SQL a window is without its end
- <= {row}.wl
+ < {row}.wl
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge
= in SQL a document is kept for ever
- AND {measures['age']} <= {row}.keep)
+ AND TRUE)
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge

@ templates/model/join_graph.py
= a window of JOIN does not begin
- else -upper, upper)
+ else 1 - upper, upper)
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge
= FOLLOWED BY takes documents of the same time
- TemporalRelation(self, 1 if
+ TemporalRelation(self, 0 if
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge
= FOLLOWED BY takes composites that overlap
- FOLLOWED_BY = TemporalOperator("FOLLOWED BY", number=0, lowest="lead",
+ FOLLOWED_BY = TemporalOperator("FOLLOWED BY", number=0, lowest="gap",
? templates/test_temporal_relations.py::test_numpy_and_sql_find_the_sides_in_a_relation

@ cep_core/algebra/calendars.py
= an instant occurs at its time, not when the clock has passed it
- if second >= end:
+ if second > end:
? cep_core/test_calendars.py::test_an_instant_belongs_to_the_time_from_which_it_is_asked_for
= a gap of a time zone swallows an instant
- return [] if by_real_time else [self._end_of_gap(second, first)]
+ return []
? cep_core/test_calendars.py::test_gaps_and_repeats

@ cep_core/runtime/intake.py
= instants occur after the event that passes them
- if t1 > instant:
+ if t1 > instant < 0:
? cep_core/test_calendars.py::test_instants_are_events_that_are_pushed_in_time

@ xscl/planning/operators/events.py
= all instants of a calendar are one thing to a match
-  + second)
+ )
? xscl/engine/test_calendars.py::test_two_instants_are_two_matches

@ xscl/engine/trials.py
= a query is tried without the instants of the time
- twin.occur(begin, min(trial.end, clock))
+ pass
? xscl/engine/test_calendars.py::test_a_query_with_a_calendar_is_tried_and_explained

@ xscl/subscriptions/streams.py
= no beat is written for an instant
-         if is_calendar(stream):
-             return True
-
? xscl/engine/test_calendars.py::test_instants_occur_while_nothing_comes

@ templates/model/conjunctive_query.py
= in SQL inequalities are dropped
- for sign, left, right in query.compared]
+ for sign, left, right in query.compared if sign == '=']
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge

@ templates/model/conjunctive_query.py
= in memory a window is without its end
- (measures["gap"] <= rows["wl"])
+ (measures["gap"] < rows["wl"])
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge
= in memory a document is kept for ever
- holds & (measures["age"] <= rows["keep"])
+ holds
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge

@ templates/smallbatch/evaluator.py
= in memory inequalities are dropped
- rows, bound = rows[differ], chosen(bound, differ)
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge

@ templates/state/value_joins.py
= a document meets itself
- (one["base"] != other["base"]) & (gap >= bounds.lower)
+ (gap >= bounds.lower)
? xscl/test_joins_at_their_edges.py::test_every_way_of_joining_keeps_every_edge

@ templates/state/join_state.py
= join state is never evicted
- return self._left > PUSHES * added and SHARE * self._left >= self._kept
+ return False
? xscl/engine/test_engine.py::test_windows_free_the_state
= join state is evicted a tick too early
- (ts >= clock - keep)
+ (ts > clock - keep)
? xscl/test_joins_at_their_edges.py::test_eviction_keeps_what_a_later_document_may_meet

@ templates/state/stored_state.py
= stored join state is evicted a tick too early
- >= clock - keep)
-             return alive
+ > clock - keep)
+             return alive
? xscl/test_joins_at_their_edges.py::test_eviction_keeps_what_a_later_document_may_meet

@ templates/model/result_bound.py
= the bound of results allows one more
- size > most or group in every
+ size > most + 1 or group in every
? xscl/engine/test_result_bound.py::test_results_of_several_rounds_count_together

@ templates/bound/bounded_answers.py
= an enumeration beyond the bound of results is all there is
- one, relations), self.most + 1)
+ one, relations), self.most)
? xscl/engine/test_result_bound.py::test_two_small_documents_with_millions_of_answers

@ templates/batch_join.py
= parts of a heavy document are not counted together
- if self._one_by_one:
+ if not self._one_by_one:
? xscl/engine/test_result_bound.py::test_of_a_heavy_document_nothing_is_asked_beyond_the_bound

@ templates/state/value_joins.py
= a heavy document is the newcomer of what arrived later
- gone & (ranks < rank)
+ gone
? xscl/engine/test_result_bound.py
:: test_a_heavy_composite_does_not_end_the_joins_of_a_later_document

@ xscl/planning/operators/joins.py
= each round of a batch is bounded by itself
- later = [qid for qid, place in places.items() if place > first]
+ later: list[int] = []
? xscl/engine/test_result_bound.py::test_results_of_several_rounds_count_together

@ cep_core/operators/cayuga/absence.py
= an absence that is due at the next tick is not prepared
-         if now + 1 in self._due:
-             self._lane.prepare(now + 1, self)
-
? cep_core/test_engine.py::test_there_may_be_a_deadline_in_each_epoch

@ cep_core/dataflow/clock.py
= a row at exactly the lateness is late
-         if time < watermark:
-             self._late
+         if time <= watermark:
+             self._late
? cep_core/test_engine.py::test_within_the_lateness_order_of_arrival_does_not_matter

@ cep_core/operators/cayuga/state.py
= instances are never evicted
- self._lane.evict_at(self._eviction, self)
+ pass
? cep_core/test_engine.py::test_dead_instances_are_dropped_by_the_watermark

@ cep_core/operators/cayuga/state.py
= of right rows that end together the last one is taken
- if known is None or rank < known[1]:
+ if known is None or rank > known[1]:
? golden/test_next_cep.py::test_a_sequence_without_filters_is_put_in_other_parentheses

@ cep_core/operators/pattern/partitions.py
= a row is of one partition whatever takes it
- columns.setdefault(pattern.components[one].input, keys[one]) == keys[one]
+ True
? cep_core/test_pattern_matches.py::test_events_meet_the_matches_of_their_partition
= what stops a run is equal to what has not occurred
- answered += tests if component in absent else []
+ answered += tests
? cep_core/test_pattern_matches.py::test_events_meet_the_matches_of_their_partition

@ cep_core/rewrite/sequences.py
= a test of a sequence skips events
- (not one.test and not one.components <= set(right.order))
+ (not one.components <= set(right.order))
? cep_core/languages/test_eql_patterns.py::test_what_a_pattern_finds

@ cep_core/rewrite/rewriting.py
= parentheses of a sequence with a filter are changed
- fixed = max(fixed, *read)
+ fixed = 0
? golden/test_next_cep.py::test_parentheses_say_nothing

@ cep_core/languages/eql/scopes.py
= what ends a moment has no conditions
- found = [moved(one, places) for one in conditions]
+ found = [moved(one, places) for one in conditions[:0]]
? cep_core/languages/test_eql.py::test_what_ends_a_time_may_read_when_its_event_was

@ cep_core/operators/cayuga/absence.py
= an absence ends with its left row
- self._output.emit((begin, now, *row[2:]), members)
+ self._output.emit((begin, row[1], *row[2:]), members)
? cep_core/test_engine.py::test_an_absence_is_certain_when_the_epoch_of_its_deadline_is_closed
= a snapshot does not know what was answered
- int(id(kept) in due.answered)
+ 0
? cep_core/test_engine.py::test_a_snapshot_knows_what_is_answered_and_every_deadline
= an answer at the deadline comes too late
- for instance in self._meet(row):
+ for instance in [i for i in self._meet(row) if row[1] < i[0][1] + self._window]:
? cep_core/test_engine.py::test_what_answers_begins_after_the_left_row_and_ends_in_the_window
= a deadline is a tick too early
- self._window = definition.window
+ self._window = max(1, definition.window - 1)
? cep_core/test_engine.py::test_what_answers_begins_after_the_left_row_and_ends_in_the_window
= a right row answers what ends when it does
- for instance in self._meet(row):
+ for instance in [*self._meet(row), *(self._pending.clear() or ())]:
? cep_core/test_engine.py::test_an_absence_is_certain_when_the_epoch_of_its_deadline_is_closed
= an instance goes with its first answer
- due.answered[id(instance)] = found
+ self._over.append(instance)
? cep_core/test_engine.py::test_instances_leave_at_their_deadline

@ cep_core/operators/cayuga/join.py
= a window join is without the end of its window
- apart <= cast(int, operator.wanted.window)
+ apart < cast(int, operator.wanted.window)
? cep_core/test_engine.py::test_a_window_join_meets_what_is_kept_on_either_side
= an event joins with itself
- if fits and not (same and one.simple and other.simple):
+ if fits:
? cep_core/test_engine.py::test_a_window_join_meets_what_is_kept_on_either_side

@ cep_core/operators/pattern/matching.py
= what is negated does not cancel in its last tick
- if row[1] > newest:
+ if row[1] >= newest:
? cep_core/languages/test_edges_of_negation.py::test_what_is_negated_cancels_at_each_edge

@ cep_core/plan/rules.py
= aggregates of different registrations are one
- return wanted
+ return wanted._replace(since=None) if "aggregate" in wanted.kind else wanted
? cep_core/test_engine.py::test_aggregates_of_later_registrations_begin_anew
= selections over one stream are one
- return wanted
+ return (wanted.kind, wanted.inputs) if wanted.kind == "select" else wanted
? cep_core/test_engine.py::test_dead_instances_are_dropped_by_the_watermark
= sequences over the same streams are one
- return wanted
+ return (wanted.kind, wanted.inputs) if wanted.kind == "sequence" else wanted
? cep_core/test_engine.py::test_operators_that_differ_are_not_one
= iterations of equal width over the same streams are one
- return wanted
+ return (wanted.kind, wanted.inputs, wanted.width) if wanted.kind == "iterate" else wanted
? cep_core/test_engine.py::test_operators_that_differ_are_not_one
= joins are one whatever their windows
- return wanted
+ return wanted._replace(window=None) if wanted.kind == "window_join" else wanted
? cep_core/test_engine.py::test_operators_that_differ_are_not_one
= absences of equal width over the same streams are one
- return wanted
+ return (wanted.kind, wanted.inputs, wanted.width) if wanted.kind == "absence" else wanted
? cep_core/test_engine.py::test_a_row_of_a_deadline_is_one_of_its_epoch
= absences of different registrations are one
- return wanted
+ return wanted._replace(since=None) if wanted.kind == "absence" else wanted
? cep_core/test_engine_properties.py::test_absences_of_two_registrations

@ cep_core/dataflow/code.py
= a right row may begin when an instance ends
- (a := i[0])[1] < start
+ (a := i[0])[1] <= start
? cep_core/test_engine.py::test_what_answers_begins_after_the_left_row_and_ends_in_the_window
= a range has its edge
- return f"({left} {node.operator} {right})"
+ return f"({left} {node.operator[0]}= {right})"
? golden/test_cayuga_examples.py::test_example_5_and_15
= a disjunction lacks its last branch
- ' or '.join(map(self.condition, items)) or False
+ ' or '.join(map(self.condition, items[:1])) or False
? cep_core/test_engine.py::test_what_every_disjunct_asks_for_is_indexed_and_bounds_instances

@ cep_core/operators/cayuga/state.py
= an instance goes on after its match
- if not found:
+ if found:
? cep_core/test_engine.py::test_simultaneous_rows_all_match_and_the_instance_goes_with_the_epoch

@ cep_core/operators/cayuga/aggregate.py
= a sliding window holds a tick more
- share.forget(group, now - window)
+ share.forget(group, now - window - 1)
? cep_core/test_languages_on_ticks.py::test_a_loop_over_the_bars_finds_the_same

@ cep_core/operators/cayuga/select.py
= a union forgets its right side
- Wire(Port(self, self.receive), None) for _ in first.inputs
+ Wire(Port(self, (self.receive, lambda *_: None)[at]), None) for at in range(2)
? cep_core/test_engine.py::test_a_row_of_a_deadline_is_one_of_its_epoch

@ cep_core/plan/predicate_pushdown.py
= predicates are pushed below contiguity
- return node if marks & {"strict", "partition"} else
+ return node if marks & {"none"} else
? cep_core/languages/test_sase.py::test_a_condition_on_one_event_does_not_make_others_contiguous

@ cep_core/dataflow/predicates.py
= null equals null
- return all(v is not None and v == v for v in (key if several else (key,)))
+ return True
? cep_core/test_sameness.py::test_nothing_equals_null_in_a_state

@ cep_core/algebra/pattern_automaton.py
= an event between does not end a step with next
- between.add(number)
+ between.discard(number)
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often
= a greedy run prefers to end
- paces[loop] == "greedy" for loop in way.leaves & other.stays
+ paces[loop] == "greedy" for loop in way.stays & other.leaves
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often
= an event of UNTIL between does not end a run
- if begun:
+ if not begun:
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often

@ cep_core/operators/pattern/matching.py
= greedy waits for an event that UNTIL keeps out of the run
-                     mask &= ~stopped.get(component, 0)
-                 if mask:
+                     mask &= ~0
+                 if mask:
? cep_core/languages/test_first_events.py::test_a_run_that_until_has_ended_blocks_nothing

@ cep_core/algebra/patterns.py
= a condition that handles null does not ask the first event of a run
- return bool(before) and not (counts or
+ return bool(before) or not (counts or
? cep_core/languages/test_first_events.py::test_the_first_event_of_a_run_of_sase

@ cep_core/operators/pattern/conditions.py
= an event that fails a test of a pattern is skipped
- return self._by_component(self.conjuncts, True)
+ return self._by_component([*self.conjuncts, *self._tests], True)
? cep_core/languages/test_eql_patterns.py::test_what_a_pattern_finds

@ cep_core/languages/eql/eql.py
= a condition of EQL on a run and others reads each event
- role: Role = "current" if each else "last"
+ role: Role = "current"
? cep_core/languages/test_eql_patterns.py::test_what_a_pattern_finds

@ cep_core/algebra/pattern_automaton.py
= an exception ends what has not begun only
- stops = tuple([(one, True) for one in until])
+ stops = tuple([(one, False) for one in until])
? golden/test_next_cep.py::test_an_exception_ends_what_waits
= a strict step takes whatever is between
- strict |= bit * (own == "strict")
+ strict |= bit * (own == "partition")
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often

@ cep_core/operators/shared_runs.py
= the window of a pattern includes its end
- window = END if wanted.window is None else wanted.window
+ window = END if wanted.window is None else wanted.window + 1
? golden/test_sase_examples.py::test_a_window_is_less_than_t
? cep_core/languages/test_edges_of_negation.py::test_what_is_negated_cancels_at_each_edge

@ cep_core/dataflow/constant_index.py
= a condition changes one constant later than the index says
- block * self._stride : place]
+ block * self._stride : place + 1]
? cep_core/test_constant_index.py::test_a_monotone_condition_is_tested_a_few_times

@ cep_core/operators/pattern/construction.py
= a sequence is for the queries that select one of its rows
- (w0 := w1 & q0)
+ (w0 := w1 | q0)
? cep_core/languages/test_sase.py::test_a_snapshot_says_who_selects_each_row

@ cep_core/operators/pattern/partitions.py
= a condition on a later event chooses the nearest of an earlier component
- (plain or one.component < other.component)
+ (plain or one.component != other.component)
? cep_core/test_patterns.py::test_the_partitions_of_a_condition

@ cep_core/operators/pattern/matching.py
= the bound of AND includes its end
- if distance < constants[place]:
+ if distance <= constants[place]:
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often
= an absence looks at what ends with the next event
- newest = now if gap.before is None else gap.before - 1
+ newest = now if gap.before is None else gap.before + 1
? cep_core/languages/test_edges_of_negation.py::test_what_is_negated_cancels_at_each_edge

@ cep_core/operators/pattern/policies.py
= past last keeps what begins with the last event
- "past last":
-                 self._discarded.append(Discarded(mask, key, first, last, True)
+ "past last":
+                 self._discarded.append(Discarded(mask, key, first, last, False)
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often
= a match discards those of other keys
- return within and key == self.key
+ return within
? golden/test_published_patterns.py::test_a_policy_acts_for_each_key_apart
= a query is closed for all keys
- self.closed.get(self._key_of[component](row), {}).items()
+ next(iter(self.closed.values())).items()
? golden/test_published_patterns.py::test_a_policy_acts_for_each_key_apart

@ cep_core/operators/pattern/matching.py
= partial matches of other keys are replaced
- ~newer.get((key(run), run.steps), 0)
+ ~newer.get((next(iter(newer), (None,))[0], run.steps), 0)
? golden/test_published_patterns.py::test_a_policy_acts_for_each_key_apart
= a policy forgets the runs that go on
-         if discards:
-             self._drop(policies.left, discards)
-
? cep_core/test_pattern_matches.py::test_the_engine_agrees_with_the_definitions_often
= what ends for one query ends for all
- ((moves, mask & ending), (0, mask & ~ending))
+ ((moves, mask), (0, 0))
? cep_core/test_pattern_matches.py::test_an_event_ends_a_step_only_for_the_queries_that_select_it

@ feeds/http/addresses.py
= one public address of a name is enough
- not all(map(is_public, addresses))
+ not any(map(is_public, addresses))
? feeds/test_fetch.py::test_a_host_is_resolved_once_and_one_private_address_is_enough_to_refuse
= private addresses are fetched
- return None if is_public(meant) else _private(parsed)
+ return None
? feeds/test_addresses.py::test_w1_w2_networks_of_the_table_are_refused_in_every_form

@ feeds/http/fetch.py
= secrets follow redirects
- own = state.headers if _is_at_home(target.url, state) else ()
+ own = state.headers
? feeds/test_fetch.py::test_secrets_stay_with_their_origin_and_are_never_shown

@ feeds/http/body.py
= an unpacked body has no limit
-             if size > largest:
-                 raise
+             if size > 1000 * largest:
+                 raise
? feeds/test_fetch.py::test_f1_gzip_bomb_stops_at_the_limit

@ feeds/xml/xmlparse.py
= a document may be one level too deep
- if depth > limits.depth:
+ if depth > limits.depth + 1:
? feeds/test_xmlparse.py::test_smaller_depths_are_counted
= entity declarations are taken
- if token[0] == b"<!ENTITY":
+ if token[0] == b"<!ENTITIES":
? feeds/test_xmlparse.py::test_x1_x2_entity_declarations_are_refused

@ feeds/xml/encoding.py
= one bad byte makes a feed Windows-1252
- return not bad or (good > 0 if declared else good >= bad)
+ return not bad
? feeds/test_encoding.py::test_a_bad_byte_changes_no_other_item_and_is_a_replacement_character

@ feeds/formats/entries.py
= an entry of nothing is stored
- return not any(getattr(
+ return False and any(getattr(
? feeds/test_damaged_feeds.py::test_an_entry_of_which_nothing_is_known_is_no_item

@ feeds/formats/parse.py
= items that only feedparser finds are lost
- if found is not None and _count(found) > _count(channel):
+ if channel is None and found is not None:
? feeds/test_damaged_feeds.py::test_damage_loses_no_item_that_feedparser_finds

@ xscl/polling/lifecycle.py
= a first answer that is no feed is followed
- if feed.error is None or feed.polls or
+ if feed.error or feed.polls or
? xscl/service/test_first_answers.py::test_what_is_no_feed_is_refused

@ feeds/formats/identity.py
= other authors are no new version of an item
-         *[("author", plain(name)) for name in entry.authors],
-
? feeds/test_items.py::test_each_part_counts_for_the_version

@ feeds/http/schedule.py
= a feed is asked before its Retry-After
- int(max(jittered, least) * _SECOND)
+ int(jittered * _SECOND)
? feeds/test_schedule.py::test_f11_jitter_brings_no_feed_before_the_time_that_its_server_asked_for

@ feeds/formats/display.py
= scripts are links
- url_schemes=set(SCHEMES),
+ url_schemes={*SCHEMES, "javascript"},
? feeds/test_display.py::test_w9_nothing_that_runs_or_deceives_is_left

@ feeds/spool.py
= a segment is acknowledged before its name is durable
-             _synchronise(self.directory)
-         reached("spool_synced")
+             pass
+         reached("spool_synced")
? feeds/test_spool.py::test_nothing_is_visible_before_the_directory_is_synchronised

@ feeds/spool_files.py
= the checksum of a segment is not compared
-  and zlib.crc32(body) == entry.crc32
? feeds/test_spool.py::test_no_changed_byte_goes_unnoticed

@ xscl/store/database.py
= a commit is not marked
- self._file.mark._replace(commits=self.commits)
+ self._file.mark
? xscl/store/test_store_file.py::test_a_removed_log_is_noticed

@ xscl/documents/consumed_offsets.py
= a batch of a consumer counts twice
-         if last is None or batch.batch_id > last:
-             return False
+         if last is not None:
+             return False
? xscl/engine/test_engine.py::test_a_batch_of_a_consumer_counts_once

@ xscl/documents/document_log.py
= the same document again is a new version
- if versions is not None and versions.has(streams, digest):
+ if versions is None and at < 0:
? xscl/engine/test_engine.py::test_the_same_document_again_changes_nothing

@ xscl/documents/document_ids.py
= documents of two streams with one id are versions
- return some == others or not set(some).isdisjoint(others)
+ return True
? xscl/documents/test_document_ids.py::test_documents_of_two_streams_with_one_id_are_joined
? xscl/documents/test_document_ids.py::test_a_document_is_sent_again_to_the_stream_it_was_meant_for

@ templates/columns/values.py
= a text is known by its key alone
- rows[at[found == checks[rows[at]]]]
+ rows[at]
? templates/test_values.py::test_equal_keys_mean_equal_texts
= a text stays known when it has left
- self._checks.remove(distinct(gone["key"].to_numpy()))
+ pass
? templates/test_values.py::test_a_key_that_was_swept_stands_for_the_next_text

@ xscl/planning/dataflow.py
= a document is shredded for its first stream only
- if any(map(self._scanned.__getitem__, streams))
+ if self._scanned[streams[0]]
? xscl/documents/test_document_ids.py::test_a_past_has_the_ids_and_the_bases_of_the_documents
= an absence is certain at the clock of late streams
- return max(clock - lateness,
+ return max(clock,
? xscl/inspection/test_diagnosis.py::test_an_absence_waits_for_late_answers

@ xscl/shredding/arrivals.py
= a replay gives documents bases of their own
- numbers("base")
+ numbers("doc")
? xscl/documents/test_document_ids.py::test_a_past_has_the_ids_and_the_bases_of_the_documents

@ xscl/documents/document_names.py
= an id of several documents means one of them
-     if len(chosen) > 1:
-         listed
+     if len(chosen) > 2:
+         listed
? xscl/documents/test_document_names.py::test_an_id_of_two_streams_is_an_error_that_lists_them

@ xscl/documents/document_ids.py
= an id that ends like a name of a version is its own name
- if number == 1 and not ("@" in id and VERSIONED.fullmatch(id)):
+ if number == 1:
? xscl/documents/test_document_names.py::test_names_are_unique
? xscl/documents/test_document_names.py
:: test_names_and_matches_do_not_depend_on_the_order_among_streams

@ xscl/engine/eviction.py
= texts leave that are still referred to
- stays = np.isin(docs, self._referred(numbered))
+ stays = np.zeros(len(docs), np.bool_)
? xscl/engine/test_retention.py::test_no_retention_changes_a_match

@ xscl/subscriptions/matches.py
= a subscription sees what came before it
- if s.since <= first
-             and s.covers(
+ if s.covers(
? xscl/inspection/test_backfill.py::test_it_joins_later_documents_with_earlier_ones
= updates reach those who did not ask for them
- and (s.updates or not updated)
? xscl/engine/test_engine.py::test_a_new_version_reaches_those_who_asked_for_updates

@ xscl/subscriptions/match.py
= the id of a match does not depend on its nodes
- , *(f"{name}={node}" for (_, name), node in named)])
+ ])
? xscl/engine/test_engine.py::test_matches_of_the_same_documents_have_ids_of_their_own

@ xscl/subscriptions/construct.py
= copied elements keep the text behind them
-         copied.tail = None
-
? xscl/engine/test_engine.py::test_constructed_documents

@ templates/model/join_graph.py
= a document that came late is not told
- return keep + self.lower, keep - self.upper
+ return keep, keep - self.upper
? xscl/subscriptions/test_late.py::test_the_earlier_side_is_late_when_no_partner_is_kept

@ xscl/engine/ingest.py
= a document that crashed a process is read again
- poison=[at - start for at in push.poison if start <= at < end],
+ poison=[],
? xscl/engine/test_engine.py::test_the_counts_of_a_consumers_batch

@ xscl/engine/match_log.py
= a page ends within the group of a distinct match
- first, last = _sure(matches, newest_first, first, last)
+ _sure(matches, newest_first, first, last)
? xscl/subscriptions/test_match_pages.py
:: test_pages_that_end_among_results_of_others_cut_no_group

@ xscl/engine/backup.py
= the parts of a backup are not compared with their checksums
- if wrong := archive.testzip():
+ if wrong := "":
? xscl/store/test_broken_backups.py::test_c18_a_flipped_byte_is_refused_or_changes_nothing

@ xscl/service/usage.py
= a quota is checked apart from its count
-         with self._mutex:
-             self.refuse(account, what, count)
+         self.refuse(account, what, count)
+         with self._mutex:
? xscl/service/test_quotas.py::test_what_is_counted_at_the_same_time_does_not_exceed_a_quota

@ xscl/limiter.py
= the quota of a day is checked apart from its count
-             now = self._roll_over()
-             if limit is not None and self._used[key] + count > limit:
+             now, used = self._roll_over(), self._used[key]
+         self._clock()
+         with self._lock:
+             if limit is not None and used + count > limit:
? xscl/service/test_quotas.py::test_what_is_counted_at_the_same_time_does_not_exceed_a_quota

@ xscl/service/registrations.py
= an export has no headers of feeds
- (*filled["headers"], *user)
+ user
? xscl/service/test_registrations.py::test_an_export_has_what_was_imported

@ xscl/service/restore.py
= segments of a backup are not compared
- there.get(number, found) == found
+ number > 0
? xscl/store/test_backup.py::test_a_spool_of_another_store_is_set_aside

@ xscl/inspection/replay.py
= a history follows the numbers of what operators over time have published
- places[timed] = np.minimum(docs[timed], passing)
+ places[timed] = docs[timed]
? xscl/engine/test_histories.py::test_what_two_publishers_make_is_read_in_the_order_of_time

@ xscl/store/store_file.py
= a commit is not synchronised
- "synchronous = FULL",
+ "synchronous = NORMAL",
? xscl/store/test_store_disk.py::test_a_loss_of_power_loses_nothing

@ xscl/store/database.py
= a second connection writes
- if self._other_commits() != self._version:
+ if self._other_commits() < 0:
? xscl/store/test_store.py::test_another_writing_connection_is_found

@ xscl/store/store_file.py
= a reader may write
- READING = ("query_only = ON", "cache
+ READING = ("cache
? xscl/store/test_store.py::test_a_reader_writes_nothing_but_in_a_transaction

@ xscl/store/chunks.py
= small chunks are merged across a large one
- self._small[relation] = [] if added.size >= LARGE else [*self._small[relation], added]
+ self._small[relation] += [] if added.size >= LARGE else [added]
? xscl/store/test_chunks.py::test_a_relation_is_a_list

@ xscl/store/database.py
= no checkpoint waits for readers
- apsw.SQLITE_CHECKPOINT_RESTART
+ apsw.SQLITE_CHECKPOINT_PASSIVE
? xscl/store/test_store.py::test_the_log_stays_small_under_readers_that_overlap
= a reader that does not end is not ended
- if self._since is None or not (every or self._is_late()):
+ if True:
? xscl/store/test_store.py::test_a_reader_that_does_not_end_is_ended

@ xscl/store/queries/mirrors.py
= a mirror misses changed rows
- if mirror is not None and self._changed[name] <= mirror.commits <= commits:
+ if mirror is not None and mirror.commits <= commits:
? xscl/store/queries/test_mirrors.py::test_a_mirror_has_what_the_table_has

@ xscl/store/store_file.py
= a removed log is not noticed
- if mark is not None and now.commits < mark.commits:
+ if mark is not None and now.commits < 0:
? xscl/store/test_store_file.py::test_a_removed_log_is_noticed

@ xscl/delivery/outbox/endpoints.py
= the positions of deliveries are not written
- self._write(changed, letters)
+ pass
? xscl/delivery/test_webhooks.py::test_a_restart_goes_on_where_the_last_one_was

@ xscl/delivery/channels/signature.py
= the signature of a webhook does not cover its time
- f"{id}.{timestamp}."
+ f"{id}."
? xscl/delivery/test_webhooks.py::test_w13_published_vector

@ xscl/service/accounts.py
= matches of other users are one's own
- return name if number == self.number else None
+ return name
? xscl/service/test_events.py::test_w8_events_are_ones_own

@ xscl/store/queries/visible_rows.py
= in SQL subscriptions of other users are one's own
- return "true" if number == OPERATOR else f"starts_with({name}, '_{number}.')"
+ return "true"
? xscl/service/test_sql.py::test_s6_nothing_of_others_is_in_any_relation

@ xscl/service/usage.py
= the quota of documents is not checked
- self._done["documents"].consume(account.number, most)
+ self._done["documents"].consume(account.number, None)
? xscl/service/test_quotas.py::test_a_quota

@ xscl/limiter.py
= the rate of requests is not limited
- is_allowed = level >= 1.0
+ is_allowed = True
? xscl/test_limiter.py::test_a_bucket_is_full_after_a_minute_and_fills_evenly

@ xscl/service/guard.py
= any host name is taken
-         _check_host(headers, self._settings)
-
? xscl/service/test_guard.py::test_w11_a_name_that_was_rebound_is_refused
= pages of other sites may change things
- _check_origin(headers)
+ pass
? xscl/service/test_guard.py::test_w11_what_other_sites_send_is_refused

@ xscl/service/tokens.py
= revoked tokens stay valid
- if name not in (other, known[0].parent)
+ if name
? xscl/service/test_guard.py::test_w7_no_wrong_revoked_and_changed_tokens

@ xscl/service/sql/check.py
= user SQL may call any function
- _FORBIDDEN.fullmatch(name.lower())
+ _FORBIDDEN.fullmatch("")
? xscl/service/test_sql.py::test_s6_no_setting_no_path_no_catalog

@ xscl/web/rendering.py
= pages do not escape what they show
- autoescape=True,
+ autoescape=False,
? xscl/web/test_pages.py::test_w9_tricks_are_shown_as_text

@ xscl/inspection/witness_reach.py
= expired witnesses of joins on executors are shown
- (ts >= clock - keep[pairs])
+ (ts <= clock)
? xscl/inspection/test_rebuilt_relations.py::test_rows_that_nothing_can_join_any_more_are_not_shown

@ xscl/inspection/rebuilt_relations.py
= joins on executors have results from before they were there
- _without(found.answers, newer)
+ _without(found.answers, [])
? xscl/inspection/test_rebuilt_relations.py
:: test_a_join_that_is_newer_than_the_last_push_has_no_results

@ xscl/spark/document_rows.py
= a row whose clock is out of range is a document
- if name in row and not least <= row[name] <= greatest:
+ if name in row and row[name] < least:
? xscl/spark/test_document_rows.py::test_numbers_and_clocks_are_in_range
= an id that is no UTF-8 reaches the join
- separate_invalid(documents if plain else list(documents))
+ separate_invalid(documents)
? xscl/spark/test_document_rows.py::test_texts_that_are_no_utf8_end_no_task

@ xscl/spark/feed_items.py
= items of a DataFrame have the address of their feed with its secrets
- public(url.encode().decode())
+ url.encode().decode()
? xscl/spark/test_feed_items.py::test_bodies_that_cannot_be_read_are_rows_with_the_reason

@ xscl/spark/probe.py
= an executor takes another directory of the same name for the catalog
- if files.current() < version:
+ if files.current() < 0:
? xscl/spark/test_jobs.py::test_a_probe_says_what_is_wrong_where

@ xscl/spark/plan_replica.py
= a worker takes a number for the row that had it before a restart
- if known < first:
+ if not known:
? xscl/spark/test_catalog.py::test_numbers_of_a_writer_that_began_again_mean_other_rows

@ xscl/spark/catalog.py
= a catalog that is opened again drops what was accepted with a window INF
- if old is None and reason_against(
+ if reason_against(
? xscl/cli/test_catalog_commands.py::test_a_window_without_end_needs_consent_once

@ xscl/spark/offers.py
= shares of a micro-batch differ in size
- range(0, max(1, offer.rows), share)
+ range(0, max(1, offer.rows), FEW)
? xscl/spark/test_offers.py::test_an_offer_is_cut_into_a_share_for_each_task

@ xscl/engine/executors.py
= results of executors ignore the clock of an arrival
- <= keeps[place]
+ <= keeps[place] + 100
? xscl/spark/test_offers.py::test_results_of_executors_are_those_of_an_engine
= executors join versions of one document
- stays[stays] = ~_are_versions(
+ stays[stays] = True | _are_versions(
? xscl/spark/test_offers.py::test_results_of_executors_are_those_of_an_engine

@ xscl/engine/eviction.py
= texts that executors get at a start are not kept
- if not self._everything and self._oldest_elsewhere >= INFINITE:
+ if not self._everything:
? xscl/spark/test_offers.py::test_c12_what_executors_have_left_decides_nothing
"""

FAULTS = tuple(read(TABLE))
