"""Registration and removal of subscriptions in the store and in the plan.

Invalid queries are refused before anything changes (`prepared`).  The
rest runs within a transaction of the engine, which loads its state from the store
again if the transaction fails.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import TypeAlias

from cep_core import LANGUAGES, Query, is_calendar
from templates.model.join_graph import JoinGraph
from templates.processor import Processor
from templates.registry import Registry
from xscl.documents.composite_ids import CompositeIds
from xscl.documents.document_validation import check_stream
from xscl.documents.results import XSCL, Subscription
from xscl.errors import StoreError, XsclError
from xscl.language.names import LONGEST_STREAM, NAME, in_short
from xscl.planning.compile import DocumentVariable, QueryPlan, QueryPlans
from xscl.planning.dataflow import Dataflow
from xscl.planning.planner import PlannedQuery
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store
from xscl.subscriptions.streams import StreamDefinitions
from xscl.subscriptions.subscriptions import Beginning, Subscriptions

PreparedQuery: TypeAlias = QueryPlan | Query
"""A query in XSCL, or one in an event language, which is in the plan already."""


@dataclass(eq=False, repr=False)
class Registration:
    """Adds subscriptions to the store and to the plan, changes them, and removes them from both."""

    _store: Store
    _registry: Registry
    _processor: Processor
    _subscriptions: Subscriptions
    _streams: StreamDefinitions
    _numbers: CompositeIds
    _dataflow: Dataflow
    _shapes: QueryPlans

    def __post_init__(self) -> None:
        self._planned = self._dataflow.subscribed

    # -- Before any change -----------------------------------------------------------------

    def prepared(
        self, pairs: Iterable[tuple[str, str]], beginning: Beginning, *, numbered: bool = False
    ) -> Iterator[tuple[str, PreparedQuery]]:
        """Yield (name, prepared query) for `register`, for each (name, text) of `pairs`.

        Each name must be free and each query valid.  If `numbered`, an error has the `row` of its
        query, from 1.
        """
        names: set[str] = set()
        for row, (name, text) in enumerate(pairs, 1):
            try:
                yield name, self.prepared_one(name, text, beginning, names)
            except XsclError as error:
                if numbered:
                    error.row = row
                    error.add_note(f"in row {row}, subscription {name!r}")
                raise
            names.add(name)

    def prepared_one(
        self, name: str, text: str, beginning: Beginning, others: Container[str] = ()
    ) -> PreparedQuery:
        """Return a query ready for `register`; raises an error if it cannot be registered.

        `name` must be free, also among `others`, the names of the same registration.  A query in an
        event language is in the plan from then on.
        """
        self._subscriptions.expect_free(name, others)
        if beginning.language != XSCL:
            return self._prepared_events(name, text, beginning)
        query = self.checked(name, text)
        if beginning.stories:
            self.refuse_stories(query)
        return query

    def streams_of(self, text: str) -> tuple[str, ...]:
        """Return the streams that a query in XSCL reads, each once; raises QueryError."""
        return self._shapes.prepare(text).shape.streams

    def checked(self, name: str, text: str) -> QueryPlan:
        """Return the compiled query of a text in XSCL that may be registered under a name.

        The name may also be that of a subscription, whose next version the query would be.  Raises
        QueryError for an invalid query, and an XsclError for the stream that it would publish.
        """
        query = self._shapes.prepare(text)
        reads, publish = query.shape.streams, query.shape.publish
        self._subscriptions.refuse_publisher(name, reads, publish, relational=False)
        self._streams.refuse_publisher(name, publish)
        _refuse_long(*reads, publish)
        self._refuse_later(query)
        return query

    def group(self, name: str, stories: bool) -> bool:
        """Set the option `stories` of a subscription; return True if it had another value.

        Then the caller has to make or delete the stories of kept matches.
        """
        one = self._subscriptions[name]
        if one.stories == stories:
            return False
        self._planned.mute(one)
        self._planned.unmute(self._subscriptions.group(name, stories))
        return True

    @staticmethod
    def refuse_stories(query: QueryPlan) -> None:
        """Raise XsclError for a query of one block: its matches share no documents."""
        if sum(not is_calendar(stream) for stream in query.shape.blocks) < 2:
            raise XsclError(
                "stories are for queries with two blocks or more",
                hint="each match of this one is of one document; leave the stories out",
            )

    def _refuse_later(self, query: QueryPlan) -> None:
        if query.shape.publish is not None:
            self._streams.refuse_later(query.shape.publish, query.lateness(self._streams.lateness))

    def _prepared_events(self, name: str, text: str, beginning: Beginning) -> Query:
        language = beginning.language
        if language not in LANGUAGES:
            raise XsclError(
                f"there is no language {language!r}", hint=f"one of {', '.join((XSCL, *LANGUAGES))}"
            )
        if beginning.updates:
            raise XsclError("updates are for queries in XSCL: an event has no versions")
        if beginning.stories:
            raise XsclError("stories are for queries in XSCL")
        key = self._subscriptions.key_of(name, beginning.replaces)
        query = self._dataflow.relational.plan(
            key, text, language, beginning.since, beginning.bound_to
        )
        try:
            self._subscriptions.refuse_publisher(
                name, query.compiled.reads, query.publishes, relational=True
            )
            self._streams.refuse_publisher(name, query.publishes)
            _refuse_unwritable(query)
            late = self._streams.latest(query.compiled.reads)
            self._streams.refuse_later(query.publishes, late)
        except XsclError:
            self._dataflow.relational.remove(key)
            raise
        return query

    def read_by(self, name: str, text: str, language: str) -> Sequence[str]:
        """Return the streams that a text in an event language reads.

        It raises the errors of `prepared_one` for that name.  The plan is the same afterwards."""
        query = self.prepared_one(name, text, Beginning(0, language=language))
        assert isinstance(query, Query)
        self._dataflow.relational.remove(query.name)
        return query.compiled.reads

    # -- Within a transaction --------------------------------------------------------------

    def register(
        self, queries: Iterable[tuple[str, PreparedQuery]], beginning: Beginning
    ) -> list[Subscription]:
        """Add prepared queries, given as (name, query), to the plan and the store.

        Return their subscriptions, in the order of the queries.
        """
        added = [self._added(name, query, beginning) for name, query in queries]
        self._subscriptions.save()
        if not all(one.is_row for one in added):
            self._numbers.save()
        self._dataflow.pairs.install(self._registry.take_changed())
        self.set_prompt()
        if any(map(attrgetter("ordered"), added)):
            self.save_plan_state()
        return added

    def _added(self, name: str, query: PreparedQuery, beginning: Beginning) -> Subscription:
        """Add the subscription of a prepared query, and its operators to the plan; return it."""
        if isinstance(query, Query):
            return self._add_events(name, query, beginning)
        if (row := query.shape.row) is None:
            return self._add_planned(name, query, beginning)
        # A join of two blocks is a row of R_T, and needs no operator of its own.
        late = max(map(self._streams.lateness, query.shape.streams)) if row.reduced.two_sided else 0
        placed = self._registry.add(row.reduced, query.definitions[0], row.relation, late)
        graph = self._registry.members[placed.template].template.graph
        added = self._subscriptions.add(
            name,
            query.source,
            placed.qid,
            beginning,
            template=placed.template,
            outputs=_outputs(graph, placed.order, query.shape.outputs),
            distinct=query.shape.distinct,
            reads=query.shape.streams,
        )
        self._planned.attach(added, None, suspended=beginning.suspended)
        return added

    def _add_planned(self, name: str, query: QueryPlan, beginning: Beginning) -> Subscription:
        self._refuse_later(query)  # again: `register` may have added readers since `checked`
        reads, publish = query.shape.streams, query.shape.publish
        self._subscriptions.refuse_publisher(name, reads, publish, relational=False)
        planned = self._planned.plan(query, beginning.since, beginning.updates, beginning.bound_to)
        root = planned.root
        assert root is not None
        places = {component: place for place, component in enumerate(root.components)}
        added = self._subscriptions.add(
            name,
            query.source,
            root.number,
            beginning,
            template=planned.placed[-1].template if root.plain else 0,
            outputs=tuple((places[query.shape.places[node]], node) for node in root.nodes),
            distinct=query.shape.distinct,
            publish=publish,
            reads=reads,
            ordered=planned.ordered,
            bound_to=beginning.bound_to,
        )
        self._planned.attach(added, planned, suspended=beginning.suspended)
        return added

    def _add_events(self, name: str, query: Query, beginning: Beginning) -> Subscription:
        qid = self._numbers.acquire(_definition(query.name, query.language))
        added = self._subscriptions.add(
            name,
            str(query.text),
            qid,
            beginning,
            publish=query.publishes,
            reads=tuple(dict.fromkeys(query.compiled.reads)),
            ordered=True,
            columns=query.schema.names,
            events=self._dataflow.relational.events(query),
            bound_to=beginning.bound_to,
        )
        self._planned.attach(added, query, suspended=beginning.suspended)
        return added

    def activate(self, one: Subscription) -> None:
        """Give a subscription that waits for its history its operators, which have no state yet."""
        before = self._planned.end_suspension(one)
        self._planned.attach(one, self._plan_of(one))
        if before is not None:
            self._planned.release(before)
            for number in before.numbers:
                self._numbers.release(number)
        self._dataflow.pairs.install(self._registry.take_changed())
        self.set_prompt()

    def remove(self, name: str, position: int) -> None:
        """Remove a subscription from plan and store, and the join state that no other one needs.

        Its matches up to `position` stay.
        """
        subscription = self._subscriptions[name]
        pairs, numbers = self._planned.pairs(subscription), self._planned.of(subscription).numbers
        publish = subscription.publish
        before = 0 if publish is None else self._streams.lateness(publish)
        self._subscriptions.remove(name, position)
        if self._subscriptions.receivers(subscription.qid):
            self._numbers.reserve(subscription.qid)
        for number in numbers:
            self._numbers.release(number)
        if publish is not None:
            self._streams.keep_lateness(publish, before)
        self._planned.detach(subscription)
        self._processor.state.forget_pairs(
            [p for p in pairs if self._registry.retention.keeps[p] < 0]
        )

    def edit(self, name: str, text: str, query: QueryPlan, updates: bool, position: int) -> bool:
        """Make `query` the next version of a subscription if it has the same results as before.

        It has after a change of SELECT, for example: then the state is kept, and the version has
        the results after `position`.  Otherwise nothing changes, and it returns False.  `text` is
        the text of `query`, `updates` the option of the version.
        """
        one = self._subscriptions[name]
        if one.relational or one.updates != updates or self._subscriptions.refusal(one):
            return False
        if replace(self._shapes.prepare(one.query), source=text) != query:
            return False
        self._planned.mute(one)
        self._planned.unmute(self._subscriptions.reword(name, text, position))
        return True

    def pause(self, name: str, position: int) -> None:
        """Pause a subscription: it has no results after `position`, but its state continues."""
        self._planned.mute(self._subscriptions[name])
        self._subscriptions.pause(name, position)

    def resume(self, name: str, position: int) -> None:
        """End the pause of a subscription: it has the results after `position`."""
        self._planned.unmute(self._subscriptions.resume(name, position))

    def save_plan_state(self) -> None:
        """Write the changes of the state of operators over time to the store."""
        entries, gone = self._dataflow.state_log.pop()
        if gone:
            delete_rows(self._store, "core", number=gone)
        if entries:
            rows = ({"number": number, "entry": entry} for number, entry in entries)
            self._store.insert_rows("core", rows)

    # -- In memory -------------------------------------------------------------------------

    def plan_again(self) -> None:
        """Add the stored subscriptions to an empty plan, and restore the state of its operators.

        Nothing is written, so that a full disk does not prevent a restart.  A query that this
        release refuses does not prevent it, either: its subscription has no results then.
        """
        for subscription in self._subscriptions:
            try:
                self._attach_again(subscription)
            except StoreError:
                raise
            except XsclError as error:
                self._planned.refuse(subscription)
                self._subscriptions.refuse(subscription, error)
        self._dataflow.pairs.install_stored(self._registry.take_changed())
        for subscription in self._subscriptions:
            if (refused := self._planned.refusal(subscription)) is not None:
                self._planned.refuse(subscription)
                self._subscriptions.refuse(subscription, refused)
        self.set_prompt()
        entries = rows_of(self._store, "core", order="number")
        self._dataflow.state_log.restore([(row["number"], row["entry"]) for row in entries])

    def _attach_again(self, subscription: Subscription) -> None:
        if subscription.relational:
            self._numbers.acquire(_definition(subscription.key, subscription.language))
        suspended = subscription.number in self._subscriptions.backfills
        self._planned.attach(subscription, self._plan_of(subscription), suspended=suspended)

    def _plan_of(self, one: Subscription) -> PlannedQuery | Query | None:
        """Plan the query of a stored subscription; None if it is a row of R_T without operators."""
        if one.relational:
            return self._dataflow.relational.plan_again(one)
        if one.is_row:
            return None
        query = self._shapes.prepare(one.query)
        return self._planned.plan(query, one.since, one.updates, one.bound_to)

    def set_prompt(self) -> None:
        """Set whether joins of stage 2 also run within each epoch, or only after those of a push.

        They also run within each epoch if a subscription with operators over time reads a stream
        that another such one publishes.
        """
        self._planned.set_prompt(
            any(
                self._subscriptions[reader].ordered
                for stream in self._subscriptions.ordered_streams()
                for reader in self._subscriptions.readers(stream)
            )
        )


def _definition(key: str, language: str) -> str:
    """Return the text that identifies the stream of results of an event query (`CompositeIds`)."""
    return f"{language} {key}"


_ORDERS = 50_000  # answers of `_outputs` that are cached, for all engines of a process


@lru_cache(_ORDERS)
def _outputs(
    graph: JoinGraph, order: tuple[int, ...], outputs: tuple[DocumentVariable | None, ...]
) -> tuple[DocumentVariable, ...]:
    """Return the variables that the results of a query bind, those of its left block first.

    `graph` is the graph of the template, `outputs` has the variable of each node of the query's
    minor.  `order` has, for each node of the template, the node of the minor.
    """
    found = [outputs[order[at]] for at in graph.outputs]
    return tuple(one for place in (0, 1) for one in found if one and one[0] == place)


def _refuse_long(*streams: str | None) -> None:
    """Raise DocumentError if one of some names of streams is too long."""
    for stream in streams:
        if stream and len(stream) > LONGEST_STREAM and not is_calendar(stream):
            check_stream(stream)


def _refuse_unwritable(query: Query) -> None:
    """Raise XsclError if the results of an event query cannot be written as XML.

    The names of its attributes must be names of elements; DocumentError for that of its stream.
    """
    if query.publishes is not None:
        check_stream(query.publishes)
    for name in query.schema.names:
        if not re.fullmatch(NAME, name):
            raise XsclError(
                f"{in_short(name)} cannot be the name of an element of the results",
                hint="give the attribute another name, as in SELECT n AS other",
            )
