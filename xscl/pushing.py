"""Documents in, matches out: one transaction for each push, or for each part of a large one.

A batch goes through both stages: accept, shred, join, store the results, and do
the same again for what subscriptions publish.  The output does not depend on
how the input is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from feeds.documents import Document, DocumentColumns
from feeds.faultpoints import reached
from xscl.assembly import Assembly
from xscl.collector import paused
from xscl.documents import Origin
from xscl.heap_trim import MANY, trim_heap
from xscl.ledger import Batch, Beat
from xscl.match import Reader
from xscl.matches import Matches
from xscl.operators.joins import Interleaved
from xscl.pace import Laps
from xscl.refusing import Refusal, check
from xscl.results import Results
from xscl.xpath.arrivals import Arrivals
from xscl.xpath.artefact import Artefacts
from xscl.xpath.portions import Part, cut_parts

FORGOTTEN_AFTER = 64
"""Pushes from one look for what operators over time need no more to the next."""


@dataclass(frozen=True, slots=True)
class Portioned:
    """Documents with their witnesses from elsewhere, and the beats between them."""

    documents: Sequence[Document]
    parts: Sequence[Part]
    beats: Sequence[Beat]

    def part(self, start: int, end: int) -> Portioned:
        """Return some of the documents; a beat belongs to the document that it comes before."""
        if start == 0 and end >= len(self.documents):
            return self
        last = len(self.documents)
        beats = tuple(
            Beat(min(at, end) - start, time)
            for at, time in self.beats
            if start <= at < end or (at == last <= end)
        )
        return Portioned(self.documents[start:end], cut_parts(self.parts, start, end), beats)


class Pushing(Assembly):
    """An engine that takes documents."""

    def push(
        self,
        documents: Iterable[Document] | Document,
        *,
        strict: bool = False,
        source: Batch | tuple[str, int] | None = None,
        parts: Sequence[Part] = (),
        poison: Collection[int] = (),
        listen: Callable[[Matches], None] | None = None,
    ) -> Matches:
        """Take a batch of documents in and return the matches that it completes, committed.

        A document that cannot be parsed is recorded in `rejected` (with
        `strict` it raises, and nothing of the batch is taken).  `source` is
        the (query id, batch id) of a consumer: a batch that was seen before
        changes nothing; its beats set the clock between documents.  `parts` are the witnesses of
        documents that were shredded elsewhere, with patterns that `publish_patterns` left there.
        The documents at the places in `poison` are not read, but recorded as rejected.

        It is one transaction, unless documents have very many results: then it is split between
        documents (`xscl.push_size`), and the batch is in the ledger with the last one.  When a
        batch that was broken off comes again, its documents that are there change nothing.
        `listen` is called with the matches of each transaction, without the lock; they are not
        returned then, so that those of a large batch are never in memory together.
        """
        if isinstance(documents, Document):
            documents = (documents,)
        elif not isinstance(documents, DocumentColumns):
            documents = tuple(documents)
        batch = None if source is None else Batch(*source)
        beats = () if batch is None else batch.beats
        poisoned = [documents[at] for at in sorted(poison)]
        if poison:
            parts = ()
            documents = tuple(one for at, one in enumerate(documents) if at not in poison)
            beats = tuple(Beat(at - sum(p < at for p in poison), time) for at, time in beats)
        if strict:
            check(documents)
        whole = Portioned(documents, tuple(parts), tuple(beats))
        with self._lock:
            if batch is not None and self._ledger.has(batch):
                return self._expand(_RESULTS.empty_table())
            if poisoned:
                self.refuse_poison(poisoned)
        found, start = [_RESULTS.empty_table()], 0
        while True:
            some = whole.part(start, start + self._push_size.documents)
            last = start + len(some.documents) == len(documents)
            try:
                results = self._push(some, batch if last else None)
            except Interleaved:
                self._push_size.undo()
                continue
            if listen is None:
                found.append(results)
            else:
                with self._lock:
                    matches = self._expand(results)
                listen(matches)
            if last:
                with self._lock:
                    return self._expand(pa.concat_tables(found))
            start += len(some.documents)

    def _push(self, portion: Portioned, batch: Batch | None) -> pa.Table:
        """Push documents in one transaction, with the batch that they end; return the results."""
        laps = Laps(self.pace)
        documents, parts = portion.documents, portion.parts
        with self._changing(), paused():
            laps.end("wait")
            self._laps = laps
            self._flow.look(self._network.passed)
            if batch is not None and not self._ledger.enter(batch):
                return _RESULTS.empty_table()
            self._network.begin(several=len(documents) > 1)
            accepted = self._take(documents, parts=parts, beats=portion.beats)
            self._network.pass_by(accepted)
            self._network.run()
            reached("joined")
            laps.end("join")
            results = self._finish()
            joined = self._network.joined
            self._push_size.learn(len(documents), joined)
            laps.end("store")
        laps.end("commit")
        if joined > MANY:
            trim_heap()
        self.pace.count(len(accepted), self._results)
        return results

    def refuse_poison(self, documents: Sequence[Document]) -> None:
        """Record in `rejected` documents of which a process died that read them, committed."""
        with self._changing():
            self._documents.refuse_poison(documents)

    def refuse(self, refused: Sequence[Refusal]) -> None:
        """Record in `rejected` what others read and found to be no document, committed."""
        if refused:
            with self._changing():
                self._documents.refuse(refused)

    def _take(
        self,
        documents: Sequence[Document],
        origins: Sequence[Origin] = (),
        *,
        parts: Sequence[Part] = (),
        beats: Sequence[Beat] = (),
    ) -> Arrivals:
        """Take documents in, and have everything run that does not wait for time to pass."""
        accepted = self._documents.accept(documents, origins, parts=parts, beats=beats)
        reached("accepted")
        self._laps.end("accept")
        self._accepted.append(accepted)
        self._network.take(accepted)
        self._network.run()
        return accepted

    def _finish(self) -> pa.Table:
        """Store what a push has brought, evict what nothing needs, and return the results."""
        before = self._position
        results = self._numbered(self._network.results())
        self._results = self._receivers(results)
        self._store.insert("state.result", results)
        touched = self._network.touched() | self._composites.save()
        self._forgetting.keep(self._accepted, touched)
        self._accepted.clear()
        self._store_late()
        self._network.cuts.save()
        self._pushes += 1
        waits = self._network.ordered and not self._pushes % FORGOTTEN_AFTER
        freed = self._processor.evict(self._documents.clock) or waits
        self._forgetting.forget(before, freed=freed)
        self._registration.save_network()
        self._documents.finish()
        self._store.set_progress(
            position=self._position,
            told=self._told,
            clock=self._documents.clock,
            next_doc=self._documents.next,
            segment=self._ledger.segment,
            **self._forgetting.numbers(),
        )
        reached("stored")
        return results

    def _receivers(self, results: pa.Table) -> int:
        """Return how many matches results are, one for each subscription of a result's join."""
        by_qid = self._subscriptions.by_qid
        counts = pc.value_counts(results["qid"]).to_pylist()
        return sum(one["counts"] * len(by_qid.get(one["values"], ())) for one in counts)

    def _store_late(self) -> None:
        if late := self._network.take_late():
            docs, watermarks, lateness = zip(*late, strict=True)
            missed = pa.nulls(len(late), pa.string())
            rows = pa.table([docs, missed, watermarks, lateness], names=list(_LATE))
            self._store.insert("state.late", rows)

    def untold(self) -> Matches:
        """Return the matches that were committed after the last call of `tell`, and of this.

        A process may be killed between the commit of matches and their delivery.  Who asks for the
        first time has no such matches.
        """
        with self._lock:
            return self._all(self.begin_to_tell() + 1)

    def begin_to_tell(self) -> int:
        """Return the position up to which matches were handed on; who asks first begins now."""
        with self._lock:
            if self._told < 0:
                self.tell(durable=True)
            return self._told

    def tell(self, *, durable: bool = False) -> None:
        """Note that all matches so far were handed on; durable at once or with the next push."""
        with self._lock:
            self._told = self._position
            if durable:
                self.save_told()

    @property
    def told(self) -> int:
        """The position up to which matches were handed on."""
        return self._told

    def tell_up_to(self, position: int) -> None:
        """Note that matches up to a position were handed on, unless a change is under way."""
        if self._lock.acquire(blocking=False):
            try:
                self._told = max(self._told, position)
            finally:
                self._lock.release()

    def save_told(self) -> None:
        """Make durable up to which position matches were handed on."""
        with self._lock:
            if self._told != self._store.progress("told"):
                with self._changing():
                    self._store.set_progress(told=self._told)

    def consumed(self, query_id: str) -> int | None:
        """Return the last batch that was consumed under a query id."""
        with self._lock:
            self._store.expect_open()
            return self._ledger.last(query_id)

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed."""
        return self._ledger.segment

    def publish_patterns(self, artefacts: Artefacts) -> None:
        """Leave the patterns of today for processes that shred documents elsewhere.

        Where they cannot be written the log says so: pushes do without.
        """
        with self._lock:
            artefacts.publish(self._network.automaton)

    def flush(self) -> Matches:
        """End the input: return the matches that waited for time to pass.

        All epochs are closed and all deadlines are over; `push` may follow, but
        what is older is late then.
        """
        with self._changing():
            self._network.begin(several=False)
            self._network.drain()
            return self._expand(self._finish())

    def advance(self, to: int) -> Matches:
        """Set the clock, in ticks: nothing earlier is waited for; return what that completes."""
        with self._changing():
            self._documents.clock = max(self._documents.clock, to)
            self._network.begin(several=False)
            self._network.advance(to)
            self._network.run()
            return self._expand(self._finish())

    def is_awaited(self, time: int) -> bool:
        """Return whether a query over live streams waits for the clock to be at a time, in ticks.

        It waits for the end of an epoch, or for a deadline; where there is a lateness a hundredth
        of it longer, so that one time will do for many.
        """

        def overdue(first: int, late: int) -> bool:
            return first + late + late // 100 < time

        with self._lock:
            return self._network.is_awaited(overdue, self._streams.live_readers())

    def _all(self, first: int = 1) -> Matches:
        return self._expand(
            self._store.arrow(
                f"SELECT * FROM state.result WHERE position >= {int(first)} ORDER BY position"
            )
        )

    def _expand(self, rows: pa.Table) -> Matches:
        by_qid = self._subscriptions.by_qid
        qids = pc.unique(rows["qid"]).to_pylist()
        subscribers = {qid: by_qid[qid] for qid in qids if qid in by_qid}
        splits = {qid: sharers[0].split for qid, sharers in subscribers.items()}
        results = Results(rows, splits, self._match_reader.read)
        return Matches(results, subscribers, Reader(self._compile, self._match_reader.tree))


_LATE = ("doc", "missed", "watermark", "lateness")

_RESULTS = pa.schema(
    [
        ("position", pa.int64()),
        ("qid", pa.int32()),
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)
