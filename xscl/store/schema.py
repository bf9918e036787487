"""The tables of a store that do not belong to the two stages of evaluation.

Those are in `templates.registry.registry`.  Changes need a step in `xscl.store.migrations`.
"""

from templates.model.relations import INFINITE
from xscl.store.migrations import current_version

EARLIEST = -(INFINITE >> 1)
"""The clock before the first document; all times are nearer to the epoch."""
LEVELS = 64
"""Ranks from one arrival to the next: how deep published streams can be nested."""

SCHEMA = """
CREATE SCHEMA state;
CREATE TABLE state.meta(key VARCHAR, value BIGINT);
CREATE TABLE state.variable(id INTEGER, definition VARCHAR);
CREATE TABLE state.pair(id INTEGER, var1 INTEGER, var2 INTEGER);
CREATE TABLE state.template(id INTEGER, graph VARCHAR);
CREATE TABLE state.r_t(
    template INTEGER, qid INTEGER, pairs INTEGER[], op TINYINT, wl BIGINT, keep BIGINT,
    apart BOOLEAN);
CREATE TABLE state.value(key UBIGINT, strVal VARCHAR);
CREATE TABLE state.binding(
    doc BIGINT, pair INTEGER, node1 INTEGER, node2 INTEGER, key UBIGINT);
CREATE TABLE state.times(
    doc BIGINT, start BIGINT, ts BIGINT, clock BIGINT, rank BIGINT, base BIGINT);
CREATE TABLE state.progress(
    position BIGINT, told BIGINT, clock BIGINT, next_doc BIGINT, segment BIGINT,
    texts_from BIGINT, matches_from BIGINT, documents_from BIGINT, documents_forgotten BIGINT,
    text_bytes BIGINT);
CREATE TABLE state.stream(name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN,
    attributes VARCHAR);
CREATE TABLE state.document(
    doc BIGINT, id VARCHAR, given VARCHAR, version INTEGER, streams VARCHAR[], ts BIGINT,
    clock BIGINT, rank BIGINT, base BIGINT, first BIGINT, hash BLOB, history BOOLEAN,
    origin VARCHAR, arrived BIGINT);
CREATE TABLE state.text(doc BIGINT, xml BLOB);
CREATE TABLE state.composite(
    doc BIGINT, docs BIGINT[], nodes INTEGER[], vals VARCHAR[], start BIGINT, ts BIGINT,
    clock BIGINT, rank BIGINT, first BIGINT, version INTEGER, bases BIGINT[]);
CREATE TABLE state.composite_stream(number INTEGER, definition VARCHAR);
CREATE TABLE state.subscription(
    number INTEGER, name VARCHAR, query VARCHAR, template INTEGER, qid INTEGER,
    outputs VARCHAR[], places INTEGER[], since BIGINT, is_distinct BOOLEAN, updates BOOLEAN,
    publish VARCHAR, reads VARCHAR[], ordered BOOLEAN, language VARCHAR,
    columns VARCHAR[], events VARCHAR, key VARCHAR, version INTEGER, after BIGINT, until BIGINT,
    bound_to BIGINT, backfilled BIGINT, live BIGINT[]);
CREATE TABLE state.retired(
    number INTEGER, name VARCHAR, query VARCHAR, template INTEGER, qid INTEGER,
    outputs VARCHAR[], places INTEGER[], since BIGINT, is_distinct BOOLEAN, updates BOOLEAN,
    publish VARCHAR, reads VARCHAR[], ordered BOOLEAN, language VARCHAR,
    columns VARCHAR[], events VARCHAR, key VARCHAR, version INTEGER, after BIGINT, until BIGINT,
    bound_to BIGINT, backfilled BIGINT, live BIGINT[]);
CREATE TABLE state.backfill(
    subscription INTEGER, key VARCHAR, doc BIGINT, clock BIGINT, most BIGINT,
    acknowledged BOOLEAN);
CREATE TABLE state.core(number BIGINT, entry BLOB);
CREATE TABLE state.late(doc BIGINT, missed VARCHAR, watermark BIGINT, lateness BIGINT);
CREATE TABLE state.result(
    position BIGINT, qid INTEGER, doc1 BIGINT, doc2 BIGINT, nodes INTEGER[]);
CREATE TABLE state.cut(qid INTEGER, doc BIGINT, id VARCHAR);
CREATE TABLE state.ledger(query_id VARCHAR, batch_id BIGINT);
CREATE TABLE state.rejected(
    stream VARCHAR, id VARCHAR, reason VARCHAR, line INTEGER, "column" INTEGER,
    message VARCHAR, sha256 VARCHAR, beginning BLOB, clock BIGINT);
CREATE TABLE state.account(number INTEGER, name VARCHAR, quota VARCHAR, created BIGINT);
CREATE TABLE state.token(
    id VARCHAR, account INTEGER, label VARCHAR, hash BLOB, created BIGINT, expires BIGINT,
    session BOOLEAN, parent VARCHAR);
CREATE TABLE state.owned_stream(account INTEGER, name VARCHAR);
CREATE TABLE state.endpoint(
    id VARCHAR, subscription VARCHAR, kind VARCHAR, config VARCHAR, state VARCHAR,
    position BIGINT, failures INTEGER, next_try BIGINT, note VARCHAR, created BIGINT);
CREATE TABLE state.dead_letter(
    endpoint VARCHAR, message VARCHAR, position BIGINT, last BIGINT, died BIGINT,
    attempts INTEGER, reason VARCHAR, next_try BIGINT);
CREATE TABLE state.secret_address(
    hash BLOB, id VARCHAR, subscription VARCHAR, label VARCHAR, created BIGINT);
CREATE TABLE state.star(
    account INTEGER, match VARCHAR, subscription VARCHAR, starred BIGINT, view VARCHAR);
CREATE TABLE state.subscription_tag(subscription VARCHAR, tag VARCHAR);
CREATE TABLE state.saved_statement(
    account INTEGER, name VARCHAR, statement VARCHAR, saved BIGINT);
CREATE TABLE state.feed(
    key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,
    added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,
    unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,
    next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN,
    domain VARCHAR, site_url VARCHAR, format VARCHAR, quality VARCHAR, note VARCHAR,
    failing_since BIGINT, code VARCHAR, moved_to VARCHAR, moved_polls INTEGER,
    hub VARCHAR, topic VARCHAR, header_names VARCHAR[]);
CREATE TABLE state.feed_item(
    key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, rule VARCHAR,
    skipped INTEGER, missing_since BIGINT, first_name UBIGINT, all_names UBIGINT,
    time_from VARCHAR, clipped BOOLEAN, written VARCHAR, alike UBIGINT,
    PRIMARY KEY (key, identity));
CREATE TABLE state.feed_spool(segment BIGINT, announced INTEGER);
CREATE TABLE state.feed_lease(
    key VARCHAR PRIMARY KEY, hub VARCHAR, topic VARCHAR, callback VARCHAR, asked BIGINT,
    due BIGINT, confirmed BIGINT, until BIGINT, failures INTEGER, denied BOOLEAN, note VARCHAR,
    deliveries BIGINT, delivered BIGINT, missed BIGINT);
CREATE TABLE state.feed_poll(
    key VARCHAR, polled BIGINT, outcome VARCHAR, seconds FLOAT, items INTEGER, note VARCHAR);
"""

COUNTED = """
CREATE SCHEMA mark;
CREATE SEQUENCE mark.commits;
CREATE TABLE mark.store(id VARCHAR, journal BIGINT);
"""
"""What the file beside the store is compared with (`xscl.store.commit_watermark`).

The count is a sequence, because concurrent transactions would conflict over a row; it is taken
right before the commit, in the order of commits.  `journal` is the number of the last record of the
journal (`xscl.store.journal`) whose rows are here.  All of it is apart from `state`, which says
what was pushed, not when.
"""

FIRST_ROWS = f"""
INSERT INTO state.progress VALUES (0, -1, {EARLIEST}, 1, 0, 0, 0, 0, 0, 0);
INSERT INTO state.meta VALUES ('version', {current_version()});
"""
