"""The plan: one graph of m-ops and channels for all queries (Hong 2009, chapter 5).

`insert` gives a logical operator its place by the rules, `release` takes it away again when nobody
uses it any more.  An operator is used by the queries that asked for it and by the operators above.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from cep_core.dataflow.channels import Channel
from cep_core.dataflow.clock import Batch, Clock, Lane
from cep_core.dataflow.journal import Unwritten
from cep_core.dataflow.mop import MOp, Operator, Wanted
from cep_core.dataflow.options import Options
from cep_core.dataflow.predicates import PredicateShapes
from cep_core.errors import AlgebraError
from cep_core.events import Row
from cep_core.operators.cayuga.active import ActiveIndex
from cep_core.operators.cayuga.aggregate import AggregateMOp
from cep_core.operators.cayuga.join import WindowJoinMOp
from cep_core.operators.cayuga.outer_join import OuterJoinMOp
from cep_core.operators.cayuga.select import ProjectMOp, SelectMOp, UnionMOp
from cep_core.operators.cayuga.state import IterateMOp, SequenceMOp
from cep_core.operators.pattern.matching import matching_for
from cep_core.plan.rules import Rule

MOST_DEPTH = 150  # operators above one another: a row passes them within one call
Builder: TypeAlias = "Callable[[Plan, Wanted, int], MOp]"


class Plan:
    """M-ops and channels, and how operators find their place among them."""

    def __init__(
        self,
        rules: Sequence[Rule],
        options: Options,
        clock: Clock,
        shapes: PredicateShapes,
        late: Callable[[Row, int, object], None],
        builders: Mapping[str, Builder] | None = None,
    ) -> None:
        self.clock = clock
        self.journal = Unwritten()
        self.batch = Batch(clock)
        self.shapes = shapes
        self.options = options
        self.sources: dict[str, Operator] = {}
        self.lanes: dict[int, Lane] = {}
        self.mops: dict[MOp, Hashable | None] = {}  # with sharing keys; None: never shared
        self.operators: dict[Operator, None] = {}
        self.shares_channels = any(rule.name == "share_channels" for rule in rules)
        self._rules = [rule for rule in rules if not rule.same]
        self._merging = [rule for rule in rules if rule.same]
        self._by_key: dict[Hashable, MOp] = {}
        self._merged: dict[Hashable, Operator] = {}
        self._active: dict[tuple[Operator, Lane], ActiveIndex] = {}
        # by label: the channels of base streams that are sharable
        self._channels: dict[str, Channel] = {}
        self._late = late
        self._builders = {**BUILDERS, **(builders or {})}
        self._made = 0

    # -- streams ---------------------------------------------------------------------------

    def source(self, name: str, width: int, lateness: int, label: str | None) -> Operator:
        """Return a new base stream; those of one label share a channel if the plan shares channels.

        ``width`` is the number of values of a row, ``lateness`` is in ticks.
        """
        channel = self._channels.get(label) if label and self.shares_channels else None
        if channel is None:
            channel = Channel(False)
            if label:
                self._channels[label] = channel
        wanted = Wanted("stream", name, (), width=width)
        operator = Operator(wanted, channel, channel.slot(), None, lateness)
        self.sources[name] = operator
        return operator

    def lane(self, lateness: int) -> Lane:
        """Return the lane of a lateness in ticks, which is made if there is none."""
        if lateness not in self.lanes:
            parts = (self.clock, self.batch, self._late, self.journal)
            self.lanes[lateness] = Lane(lateness, *parts)
            self.lanes[lateness].close(self.clock.now - lateness)
            self.lanes = dict(sorted(self.lanes.items()))
        return self.lanes[lateness]

    def leave(self, lane: Lane) -> None:
        """Release a lane; one without uses is removed."""
        lane.uses -= 1
        if not lane.uses:
            del self.lanes[lane.lateness]
            self._active = {key: one for key, one in self._active.items() if key[1] is not lane}

    # -- operators -------------------------------------------------------------------------

    def insert(self, wanted: Wanted) -> Operator:
        """Return an operator for what is wanted, shared if a rule merges it, with one more use."""
        merge_keys = self._merge_keys(wanted)
        for key in merge_keys:
            if key in self._merged:
                operator = self._merged[key]
                operator.uses += 1
                return operator
        if any(one.depth >= MOST_DEPTH for one in wanted.inputs):
            raise AlgebraError(
                f"the query is nested too deeply: {MOST_DEPTH} operators above one another are"
                " the most"
            )
        operator = self._add(self._place(wanted), wanted)
        operator.uses += 1
        if wanted.lane is not None:
            wanted.lane.uses += 1
        for source in wanted.inputs:
            source.uses += 1
        self.operators[operator] = None
        for key in merge_keys:
            self._merged[key] = operator
        return operator

    def release(self, operator: Operator) -> None:
        """Release an operator; one without uses is removed, with all that only it used."""
        operator.uses -= 1
        if operator.uses or operator.mop is None:
            return
        for key in self._merge_keys(operator.wanted):
            if self._merged.get(key) is operator:
                del self._merged[key]
        del self.operators[operator]
        mop = operator.mop
        mop.remove(operator)
        self._sweep(mop)
        for lane in self.lanes.values():
            self._active.pop((operator, lane), None)
        if operator.wanted.lane is not None:
            self.leave(operator.wanted.lane)
        for source in operator.wanted.inputs:
            self.release(source)

    def active(self, right: Operator, lane: Lane) -> ActiveIndex:
        """Return the AN-index of a right stream in a lane, which is made if there is none."""
        key = (right, lane)
        if key not in self._active:
            self._active[key] = ActiveIndex(lane, self.options)
        return self._active[key]

    def active_indexes(self) -> Iterator[ActiveIndex]:
        """Yield the AN-indexes."""
        yield from self._active.values()

    def seconds(self) -> dict[str, float]:
        """Return the seconds that were spent in each m-op since it was made, by label.

        The time of an m-op contains that of those which take its rows at once, as selections do.
        That of an AN-index is divided among its states.
        """
        found = {
            mop.label: mop.seconds + sum(port.seconds for port in mop.waiting_ports())
            for mop in self.mops
        }
        for index in self.active_indexes():
            for state in index.states:
                found[state.label] += index.wire.port.seconds / len(index.states)
        return found

    def _merge_keys(self, wanted: Wanted) -> list[Hashable]:
        return [(rule.name, key) for rule in self._merging if (key := rule.key(wanted)) is not None]

    def _place(self, wanted: Wanted) -> MOp:
        """Return the m-op for an operator: one that has its key, or a new one."""
        for rule in self._rules:
            found = rule.key(wanted)
            if found is None:
                continue
            key = (rule.name, found)
            mop = self._by_key.get(key)
            if mop is None:
                self._by_key[key] = mop = self._build(wanted, key)
            elif not mop.accepts(wanted):
                mop = self._build(wanted, None)
            return mop
        return self._build(wanted, None)

    def _add(self, mop: MOp, wanted: Wanted) -> Operator:
        """Return a new operator of an m-op; if that fails the plan is as it was."""
        try:
            return mop.add(wanted)
        except Exception:
            self._sweep(mop)
            raise

    def _sweep(self, mop: MOp) -> None:
        """Remove an m-op and its sharing key from the plan if it has no operators."""
        if mop.operators:
            return
        place = self.mops.pop(mop)
        if place is not None and self._by_key.get(place) is mop:
            del self._by_key[place]

    def _build(self, wanted: Wanted, key: Hashable | None) -> MOp:
        self._made += 1
        mop = self._builders[wanted.kind](self, wanted, self._made)
        self.mops[mop] = key
        return mop


def _attending(kind: Callable[[Wanted, int, ActiveIndex], MOp]) -> Builder:
    """Return a builder of m-ops whose right rows come through the AN-index; ``kind`` makes one."""
    return lambda plan, wanted, number: kind(
        wanted, number, plan.active(wanted.inputs[1], cast(Lane, wanted.lane))
    )


def _join(plan: Plan, wanted: Wanted, number: int) -> MOp:
    lateness = max(source.lateness for source in wanted.inputs)
    return WindowJoinMOp(wanted, number, plan.clock, lateness, plan.journal)


BUILDERS: Mapping[str, Builder] = {
    "select": lambda plan, wanted, number: SelectMOp(wanted, number, plan.shares_channels),
    "project": lambda plan, wanted, number: ProjectMOp(wanted, number),
    "union": lambda plan, wanted, number: UnionMOp(wanted, number),
    "sequence": _attending(SequenceMOp),
    "iterate": _attending(IterateMOp),
    "group_aggregate": lambda plan, wanted, number: AggregateMOp(wanted, number),
    "window_join": _join,
    "absence": _attending(OuterJoinMOp),
    "outer_join": _attending(OuterJoinMOp),
    "pattern_match": lambda plan, wanted, number: matching_for(wanted, number),
}
