"""The tables of docs/reference/limits.md: each bound has a test, and its number is the code's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

import cep_core.algebra.calendars as calendars
import cep_core.algebra.function_bounds as made
import cep_core.algebra.patterns as sase
import cep_core.algebra.wellformed as wellformed
import cep_core.dataflow.code as code
import cep_core.languages.reader as reader
import feeds.formats.identity as identity
import feeds.formats.items as items
import feeds.formats.opml as opml
import feeds.formats.parse as parse
import feeds.http.addresses as addresses
import feeds.http.connection as feed_connection
import feeds.http.fetch as fetch
import feeds.http.websub as websub
import feeds.spool as spool
import feeds.spool_files as spool_files
import templates.bound.enumeration as enumeration
import templates.evaluators as plans
import templates.text.text_pass as text_pass
import xscl.cli.in_process as in_process
import xscl.delivery.channels.mail as mail
import xscl.delivery.channels.webhook as webhook
import xscl.delivery.endpoint as endpoint
import xscl.delivery.outbox.endpoints as endpoints
import xscl.delivery.syndication.secret_addresses as secret_addresses
import xscl.delivery.syndication.syndicated_feed as atom
import xscl.documents.consumed_offsets as consumed_offsets
import xscl.documents.document_validation as document_validation
import xscl.documents.retention as retention
import xscl.engine.backfills as backfills
import xscl.engine.backfills as histories
import xscl.engine.disk_guard as disk_guard
import xscl.engine.ingest as ingest
import xscl.ingestion.pipeline as pipeline
import xscl.inspection.vocabulary as vocabulary
import xscl.language.limits as limits
import xscl.language.names as names
import xscl.language.regex as regex
import xscl.language.xpath as xpath
import xscl.planning.compile as plan_shapes
import xscl.planning.operators.refine as refine
import xscl.planning.truncations as truncations
import xscl.polling.arrival_clock as arrival_clock
import xscl.polling.feed as feed
import xscl.polling.feed_poller as poller
import xscl.polling.feed_repository as feed_repository
import xscl.polling.hubs as hubs
import xscl.polling.new_items as new_items
import xscl.service.accounts as accounts
import xscl.service.app as installation
import xscl.service.guard as guard
import xscl.service.logs as logs
import xscl.service.match_views as showing
import xscl.service.routes.documents as posted
import xscl.service.routes.feeds as feed_routes
import xscl.service.routes.inspection as trials
import xscl.service.routes.subscriptions as imported
import xscl.service.routes.tokens as token_routes
import xscl.service.routes.websub as callbacks
import xscl.service.server as connection
import xscl.service.server as server
import xscl.service.tags as tags
import xscl.service.tokens as tokens
import xscl.shredding.batch.shape as shape
import xscl.shredding.conditions.unevaluated as unevaluated
import xscl.shredding.conditions.xpath_values as xpath_values
import xscl.shredding.nodes.tree as tree_cache
import xscl.store.database as database
import xscl.store.queries.browsing as browsing
import xscl.store.queries.mirrors as mirrors
import xscl.subscriptions.construct as construct
import xscl.subscriptions.match as match
import xscl.subscriptions.match_tables as match_tables
from cep_core.algebra.normal_form import MOST_DISJUNCTS
from cep_core.languages.tokens import _LONGEST as CEP_TEXT
from cep_core.languages.tokens import _LONGEST_NUMBER as CEP_NUMBER
from feeds.files import archives
from feeds.http.schedule import PollPolicy
from feeds.xml import xmlparse
from templates.model.result_bound import RESULTS
from tests.reliability import all_tests
from xscl.delivery import message, send_slots
from xscl.delivery.outbox import printing
from xscl.ingestion.watches import STALLED
from xscl.server import termination
from xscl.service import intake, marks
from xscl.service.accounts import Quota
from xscl.service.app import ServiceSettings
from xscl.service.connection_limit import CONNECTIONS
from xscl.service.routes.events import Patience
from xscl.service.sql.limits import Limits
from xscl.store.queries.tables import LEVELS
from xscl.time_format import LATEST

PAGE = Path(__file__).parents[1] / "docs/reference/limits.md"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND = 1_000_000
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND

QUOTA, SERVICE, SQL = Quota(), ServiceSettings(), Limits()
POLL, PATIENCE = PollPolicy(), Patience()

NUMBERS: Mapping[str, tuple[float, ...]] = {
    "connections of one client": (CONNECTIONS,),
    "requests in progress of one client": (SERVICE.connections,),
    "connections of the service": (connection.MOST, connection.SPARE),
    "head of a request": (connection.SECONDS, connection.HEAD / KIB),
    "address of a request": (guard.LONGEST / KIB,),
    "body of a request": (
        SERVICE.patience,
        SERVICE.body / 1e6,
        SERVICE.bulk / 1e6,
        SERVICE.form / 1e6,
        guard.STRANGER / KIB,
    ),
    "rest of a body": (connection.SECONDS,),
    "connection without a request": (connection.SECONDS, server.KEEP_ALIVE),
    "wrong tokens": (SERVICE.guesses,),
    "trials and": (installation.QUESTIONS, 1, 1, trials.SECONDS),
    "documents read for the names of a stream": (vocabulary.DOCUMENTS, vocabulary.BYTES),
    "documents that a search reads": (browsing.SEARCHED,),
    "rows of an import": (imported.MOST,),
    "names": (
        *(names.LONGEST_NAME, names.LONGEST_STREAM, accounts.LONGEST_USER),
        *(names.LONGEST_LABEL, document_validation.LONGEST_ID),
    ),
    "tags, and characters": (feed_repository.MOST_TAGS, feed.LONGEST_HEADER),
    "rows of a page": (1_000,),
    "end of the service": (termination.DEADLINE, termination.DEADLINE + 1),
    "a text in a line of the log": (logs._LONGEST,),
    "requests": (QUOTA.requests_a_minute or 0,),
    "streams of events": (QUOTA.listeners or 0,),
    "documents sent": (QUOTA.documents_a_day or 0,),
    "bytes of documents sent": (QUOTA.bytes_a_day or 0,),
    "matches": (QUOTA.matches_a_day or 0,),
    "subscriptions": (QUOTA.subscriptions or 0,),
    "feeds": (QUOTA.feeds or 0,),
    "streams": (QUOTA.streams or 0,),
    "endpoints of deliveries": (QUOTA.endpoints or 0,),
    "mails": (QUOTA.mails_a_day or 0,),
    "tokens": (token_routes.MOST,),
    "sessions": (tokens.SESSIONS, tokens.SESSION / DAY),
    "bytes of a document": (xmlparse.MAX_BYTES, xmlparse._NAME),
    "elements and attributes": (xmlparse.MAX_ELEMENTS, xmlparse._ATTRIBUTES_OF_ONE),
    "depth of a document": (xmlparse._DEPTH, xmlparse._NESTING),
    "time of a posted document": (arrival_clock.DAY / HOUR, posted.AHEAD / SECOND / 60),
    "time of an event": (datetime.fromtimestamp(LATEST // SECOND, UTC).year,),
    "step of the wall clock": (
        arrival_clock.BOUND / SECOND,
        arrival_clock.FURTHEST / HOUR,
        arrival_clock.SETTLED / SECOND,
    ),
    "documents that wait": (intake.DOCUMENTS, intake.BYTES),
    "free space": (disk_guard.LEAST / MIB,),
    "pause after a write that failed": (disk_guard.AGAIN, disk_guard.LONGEST),
    "bytes of a segment": (spool_files.MAX_BYTES / GIB,),
    "a file of the spool": (spool._FULL / MIB, spool._MOST),
    "a batch of the consumer": (pipeline.BATCH, pipeline.BATCH_BYTES, pipeline.SECONDS),
    "segments that wait": (STALLED,),
    "consumed segments": (pipeline.KEPT / MIB,),
    "rejected and late": (retention.ROWS, 1_024),
    "texts of documents": (
        (retention.SERVICE.history or 0) / DAY,
        (retention.SERVICE.text_bytes or 0) / GIB,
    ),
    "ids of documents": ((retention.SERVICE.identities or 0) / DAY,),
    "batches whose keys": (consumed_offsets.KNOWN,),
    "shapes of documents": (shape.BUDGET, shape.LARGEST),
    "processes that one document ends": (2,),
    "time for which a reader": (database.READING,),
    "log of the store": (
        *(database.CHECKPOINT / MIB, database.RESTART / MIB),
        database.LARGEST_LOG / GIB,
    ),
    "mirrors of a table": (mirrors.MOST_BYTES / MIB,),
    "backups of a service": (1,),
    "room of a backup": (),
    "results of an arriving document": (RESULTS,),
    "work for one row": (enumeration.WORK,),
    "texts of an arriving": (text_pass.CHARACTERS, text_pass.FOUND),
    "results of one transaction": (ingest.AIM,),
    "documents of one transaction": (ingest.MOST,),
    "documents shown as": (truncations.KEPT,),
    "published streams": (LEVELS - 1,),
    "state of joins": (),
    "parsed documents": (tree_cache.TREES, tree_cache.NODES),
    "compiled shapes": (plan_shapes.MOST, plans.MOST_PLANNED),
    "matches that are kept": ((retention.SERVICE.matches or 0) / DAY,),
    "output document of a match": (construct.LARGEST, match.VALUES),
    "characters of a page": (showing.PAGE_BYTES, atom.LARGEST, match_tables.LARGEST),
    "matches that are not printed": (printing.BEHIND,),
    "text of a query": (limits.MAX_LENGTH, CEP_TEXT),
    "text of an expression": (xpath.LONGEST, xpath.DEEPEST, xpath.DIGITS, xpath.RANGES),
    "steps of an expression": (xpath_values.STEPS, xpath_values.CHARACTERS),
    "expressions that are counted": (unevaluated.MOST,),
    "regular expression": (regex.LONGEST, regex.LARGEST),
    "tokens of a query": (limits.MAX_TOKENS, limits.MAX_STEPS),
    "names and numbers in XSCL": (limits.LONGEST_WORD, limits.MOST_REPLACING, CEP_NUMBER),
    "nesting of a query": (limits.MAX_DEPTH, reader.MOST, wellformed.MOST_LEVELS),
    "what functions and arithmetic": (made.LONGEST, made.LARGEST, made.ITEMS),
    "work of the functions of an expression": (made.STEPS, made.SHARE, code.CHOICES),
    "work of the functions of a join": (refine.DOCUMENT,),
    "alternatives of a predicate": (MOST_DISJUNCTS,),
    "components of a sequence": (sase.MOST_COMPONENTS,),
    "instants of a calendar": (calendars.MOST,),
    "items of a list": (reader.MOST_ITEMS,),
    "polls in the history of a feed": (feed_repository.MOST, feed_repository.LONGEST),
    "saved statements in SQL": (marks.MOST_STATEMENTS, marks.LONGEST_NAME),
    "tags of a subscription": (tags.MOST, tags.LONGEST),
    "marks of items and matches": (marks.MOST_MARKS, 1_000),
    "starred matches": (marks.MOST_STARS,),
    "matches of the past": (
        *(histories.MATCHES, histories.DOCUMENTS),
        *(backfills.LONGEST, backfills.MOST_RESULTS),
    ),
    "time of a query": (SQL.seconds, SQL.grace),
    "memory of a query": (SQL.memory / MIB,),
    "rows of an answer": (SQL.rows, SQL.most_rows),
    "bytes and columns of an answer": (SQL.size, SQL.columns),
    "text of a query in SQL": (SQL.text,),
    "queries at the same time": (SQL.together, 1, SQL.waiting),
    "time and bytes of an answer": (fetch.DEFAULT.seconds, fetch.DEFAULT.largest),
    "redirects": (fetch.REDIRECTS,),
    "addresses of a host": (feed_connection.TRIED,),
    "address of a feed": (addresses._LONGEST,),
    "items of an answer": (parse.MAX_ITEMS,),
    "id of an item": (identity.LONGEST_IDENTITY,),
    "title of a feed, in each": (items.LONGEST_TITLE,),
    "versions of an item": (new_items.VERSIONS,),
    "items of a feed": (new_items.KEPT,),
    "interval of polls": (POLL.floor / 60, POLL.cap / 3_600),
    "tags of damaged markup": (xmlparse.MAX_ELEMENTS,),
    "wait for the first answer": (feed_routes.FIRST_ANSWER, in_process.FIRST_ANSWER),
    "failures in a row": (feed.LOST_AFTER / DAY,),
    "answers 304": (fetch.UNCONDITIONAL,),
    "requests at the same time": (poller.AT_ONCE, 1),
    "name resolutions": (addresses.RESOLVING,),
    "content that a hub sends": (fetch.DEFAULT.largest,),
    "requests to a callback": (callbacks.REQUESTS, callbacks.AT_ONCE, callbacks.PATIENCE),
    "callbacks": (hubs.CALLBACKS,),
    "lease of a hub": (hubs.SHORTEST, hubs.LONGEST / (24 * 3_600)),
    "hubs that are asked": (hubs.AT_ONCE, websub.REDIRECTS),
    "feeds of an OPML list": (opml.MAX_OUTLINES,),
    "members and unpacked bytes": (archives.MEMBERS, archives.UNPACKED / GIB),
    "answer of a receiver": (fetch.DEFAULT.seconds, webhook.LARGEST / KIB),
    "attempts of a delivery": (len(endpoint.SCHEDULE) + 1, sum(endpoint.SCHEDULE) // 3_600),
    "`Retry-After` of a receiver": (endpoint.LONGEST_WAIT / 3_600,),
    "matches in a message": (message.TOGETHER,),
    "bytes of a message": (message.LARGEST, message.CUT, message.LINES),
    "deliveries at the same time": (send_slots.HEALTHY, send_slots.FAILING, send_slots.SAME_HOST),
    "endpoints, and secret addresses": (endpoints.MOST,),
    "mailed codes": (mail.CODES, mail.TRIES),
    "a secret after its rotation": (endpoints.OVERLAP / HOUR,),
    "a reader of events that takes nothing": (PATIENCE.taking,),
    "a reader of events that takes slowly": (PATIENCE.behind, PATIENCE.slow),
    "entries on a page": (atom.PAGE,),
}
"""The numbers of each bound in their order, by the beginning of the resource."""


class Bound(NamedTuple):
    """A row of a table."""

    resource: str
    bound: str
    beyond: str
    tests: tuple[tuple[str, str], ...]


def rows() -> Iterator[Bound]:
    text = PAGE.read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| resource "):
            resource, bound, beyond, tests = line.strip("| ").split(" | ")
            named = re.findall(r"`([\w/]+)::(test_\w+)`", tests)
            yield Bound(resource, bound, beyond, tuple(named))


BOUNDS = tuple(rows())


def numbers(bound: str) -> tuple[float, ...]:
    """Return the numbers in a cell; options and names are in code spans."""
    plain = re.sub(r"`[^`]*`", "", bound)
    return tuple(float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", plain))


@pytest.mark.parametrize("row", BOUNDS, ids=lambda row: row.resource)
def test_a_bound_has_the_numbers_of_the_code_and_a_test(row: Bound) -> None:
    known = max((one for one in NUMBERS if row.resource.startswith(one)), key=len, default=None)
    assert known is not None, "a row needs its numbers in NUMBERS"
    assert numbers(row.bound) == NUMBERS[known]
    assert row.beyond
    assert row.tests
    for file, name in row.tests:
        found = [one for one, test in all_tests() if test == name]
        assert any(one.removesuffix(".py").endswith(f"/{file}") for one in found), (file, name)


def test_every_number_has_a_row() -> None:
    resources = [row.resource for row in BOUNDS]
    assert len(set(resources)) == len(resources) == len(NUMBERS)
    for known in NUMBERS:
        assert any(one.startswith(known) for one in resources), known
    assert secret_addresses.MOST == endpoints.MOST, "which share a row"


def test_every_quota_has_a_row() -> None:
    """A quota without a row in the table of users would be a bound that nobody tests."""
    page = PAGE.read_text("utf-8").partition("\n## One user\n")[2].partition("\n## ")[0]
    quotas = page.count("| 403 `quota_exceeded`") + page.count("| wait for the next day")
    assert quotas + page.count("| 429 ") - 1 == len(fields(Quota)), "and one row of tokens"
