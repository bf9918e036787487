"""Export and import of registrations: what users of a service have set up, without documents.

    {"format": "xscl registrations 1",
     "account": [...], "token": [...], "owned_stream": [...], "stream": [...],
     "subscription": [...], "feed": [...], "endpoint": [...], "secret_address": [...],
     "subscription_tag": [...], "saved_statement": [...]}

Each list has the rows of one table, named as in the store.  A feed has its full address and its
headers besides, an endpoint its secrets, so the file is as private as the data directory.

An import adds what is not there.  Accounts keep their numbers, because these are part of the names
of users' objects.  Subscriptions see the documents that arrive from then on, and endpoints begin
with the matches of these.  A repeated import changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from xscl.atomic_files import write_durably
from xscl.delivery.endpoint import EndpointState, read
from xscl.delivery.outbox.endpoints import secrets_key
from xscl.documents.results import XSCL
from xscl.engine.backup import read_backup, unpack
from xscl.engine.catalog import RegistrationOptions
from xscl.engine.facade import Engine
from xscl.errors import StoreError, XsclError
from xscl.ingestion.data_directory import DataDirectory
from xscl.language.names import owner_name
from xscl.polling.credentials import ADDRESSES, NAME, Credentials, secrets_in
from xscl.polling.feed import HIDDEN, Feed, site_of, split_user, title_of
from xscl.polling.feed_commands import allow_late, prepare
from xscl.polling.feed_repository import FeedRepository, ticks
from xscl.service.name_bounds import unfit_names
from xscl.store.queries.owned_rows import (
    OWNED,
    StoredRow,
    expect_types,
    exported_rows,
    insert_missing,
)
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store

FORMAT = "xscl registrations 1"
_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"xscl registrations')

_TABLES = {table: owned.exported for table, owned in OWNED.items() if owned.exported}
_LATER = (
    "subscription_tag",
    "saved_statement",
    "preference",
)  # exports of earlier releases lack them
_HIDDEN = (*ADDRESSES, "header_names")  # columns that are read to complete a feed's row
_UNKNOWN: StoredRow = {"stories": False, "given_title": ""}  # exports of 0.2 lack these columns
_MORE = {"feed": ("headers", "given_for"), "endpoint": ("secrets",)}  # fields from the secrets file
_TOGETHER = 2_000  # subscriptions in one transaction


class RegistrationsError(XsclError):
    """An export cannot be read, or does not fit the data directory."""

    code = "registrations"


@dataclass(frozen=True, slots=True)
class Registrations:
    """The rows of an export by table, and the URLs of feeds whose secrets are lost.

    `left_out` are feeds without a row, as their address is lost.  Those in `without_headers` have
    a row without headers.
    """

    rows: Mapping[str, list[StoredRow]]
    left_out: tuple[str, ...] = ()
    without_headers: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of users, subscriptions, feeds and endpoints."""
        names = {"account": "users", "subscription": "subscriptions"}
        names |= {"feed": "feeds", "endpoint": "endpoints"}
        return {name: len(self.rows[table]) for table, name in names.items()}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A subscription of an import that this release refuses."""

    name: str
    error: XsclError


# -- Export --------------------------------------------------------------------------------


def export(home: DataDirectory, target: Path, backup: Path | None = None) -> Registrations:
    """Write the registrations of a data directory, or of a backup, to a private file.

    Secrets are those of the data directory.  Raises StoreError, BackupError.
    """
    if backup is None:
        home.expect()
        with home.hold("export"):
            found = _registrations(home.database, secrets_in(home.path / NAME))
    else:
        read_backup(backup)
        with TemporaryDirectory(prefix=".export-", dir=target.absolute().parent) as place:
            unpack(backup, Path(place))
            found = _registrations(
                DataDirectory(Path(place)).database, secrets_in(home.path / NAME)
            )
    write_durably(target, json.dumps({"format": FORMAT, **found.rows}, default=bytes.hex).encode())
    return found


def _registrations(database: Path, secrets: Credentials) -> Registrations:
    with closing(Store(database)) as store:
        rows = {
            table: exported_rows(store, table, *(_HIDDEN if table == "feed" else ()))
            for table in _TABLES
        }
    known = rows["feed"]
    feeds = [_with_secrets(row, secrets) for row in known]
    rows["feed"] = [row for row in feeds if HIDDEN not in row["url"]]
    for row in rows["endpoint"]:
        row["secrets"] = secrets.of(secrets_key(row["id"]))
    with_names = {row["key"] for row in known if row["header_names"]}
    return Registrations(
        rows,
        left_out=tuple(row["url"] for row in feeds if HIDDEN in row["url"]),
        without_headers=tuple(
            row["url"] for row in rows["feed"] if row["key"] in with_names and not row["headers"]
        ),
    )


def _with_secrets(row: StoredRow, secrets: Credentials) -> StoredRow:
    """Return the row of a feed with its address and headers."""
    filled = secrets.filled({name: value or "" for name, value in row.items()})
    url, user = split_user(filled["url"])
    headers, origin = (*filled["headers"], *user), filled["given_for"]
    kept = {name: row[name] for name in _TABLES["feed"]}
    return {**kept, "url": url, "headers": headers, "given_for": (origin or url) if headers else ""}


# -- Import --------------------------------------------------------------------------------


def is_export(content: bytes) -> bool:
    """Return True for the content of an export, whatever its version."""
    return _BEGINNING.match(content) is not None


def read_export(content: bytes) -> Registrations:
    """Return the registrations of an export; raises RegistrationsError."""
    try:
        told = json.loads(content)
        form = told.pop("format")
        if form != FORMAT:
            raise RegistrationsError(
                f"the file has the format {form!r}", hint="install the release that wrote it"
            )
        rows = {
            table: [
                {name: (_UNKNOWN | row)[name] for name in (*names, *_MORE.get(table, ()))}
                for row in (told.get(table, []) if table in _LATER else told[table])
            ]
            for table, names in _TABLES.items()
        }
        for row in (*rows["token"], *rows["secret_address"]):
            row["hash"] = bytes.fromhex(row["hash"])
        for row in rows["feed"]:  # 0.2 stored titles and sites as in the feeds
            row["title"], row["site_url"] = (
                title_of(row["title"] or ""),
                site_of(row["site_url"] or ""),
            )
        for table, found in rows.items():
            expect_types(table, found)
        for row in rows["endpoint"]:
            _expect_endpoint(row)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RegistrationsError(
            f"the file is no export of xscl, or it is damaged: {error}", hint="export again"
        ) from error
    for wrong in unfit_names(rows):
        raise RegistrationsError(f"the file is refused: {wrong}", hint="change it in the file")
    return Registrations(rows)


def _expect_endpoint(row: StoredRow) -> None:
    """Raise ValueError, TypeError or KeyError for an endpoint that no service could load."""
    channel = read(row["kind"], row["config"])
    target = getattr(channel, channel.target)
    is_known = row["state"] in get_args(EndpointState) and isinstance(row["secrets"], Mapping)
    if not is_known or not isinstance(target, str):
        raise ValueError(f"the endpoint {row['id']} is none of this release")
    if channel.form.fullmatch(target) is None:
        raise ValueError(f"{target!r}: {channel.rule}")


def register(home: DataDirectory, wanted: Registrations) -> tuple[dict[str, int], list[Refusal]]:
    """Register what a data directory does not have; return counts of new rows by kind, refusals.

    Subscriptions that this release refuses are returned, and their endpoints are left out.
    Raises RegistrationsError before any change if accounts are in conflict.
    """
    with home.hold("import"):
        secrets = secrets_in(home.path / NAME)
        with closing(Store(home.database)) as store:
            _refuse_other_accounts(store, wanted.rows["account"])
            with store.transaction():
                new = {
                    "users": insert_missing(store, "account", wanted.rows["account"]),
                    "tokens": insert_missing(store, "token", wanted.rows["token"]),
                    "streams": insert_missing(store, "owned_stream", wanted.rows["owned_stream"]),
                }
                insert_missing(store, "stream", wanted.rows["stream"])
                insert_missing(store, "saved_statement", wanted.rows["saved_statement"])
        with Engine(home.database, owns_process=True) as engine:
            new["feeds"] = _follow(engine, wanted.rows["feed"])
            prepare(engine)
            new["subscriptions"], refused = _subscribe(engine, wanted.rows["subscription"])
            with closing(engine.connect()) as store:
                new["endpoints"] = _add_endpoints(engine, store, wanted.rows, secrets)
    return new, refused


def _refuse_other_accounts(store: Store, wanted: Sequence[StoredRow]) -> None:
    known = {row["name"]: row["number"] for row in rows_of(store, "account")}
    names = {number: name for name, number in known.items()}
    for row in wanted:
        number, name = row["number"], row["name"]
        if names.get(number, name) != name or known.get(name, number) != number:
            raise RegistrationsError(
                f"the user {name!r} has another number in the export than here, or the number"
                f" {number} another user",
                hint="import into a new data directory, before users are made there",
            )


def _follow(engine: Engine, rows: Sequence[StoredRow]) -> int:
    """Follow the feeds that are not followed, with a poll due at once; return their count."""
    with FeedRepository(engine) as feeds:
        keys = {feed.key for feed in feeds}
        new = [_feed(row) for row in rows if row["key"] not in keys]
        feeds.insert(new)
        allow_late(engine, new)
    return len(new)


def _feed(row: StoredRow) -> Feed:
    given = {name: value for name, value in row.items() if value is not None}
    headers = tuple((name, value) for name, value in row["headers"])
    return Feed(**given | {"tags": tuple(row["tags"]), "headers": headers, "next_poll": ticks()})


def _subscribe(engine: Engine, rows: Sequence[StoredRow]) -> tuple[int, list[Refusal]]:
    """Register subscriptions in their order; return the count of new ones, and refusals."""
    new = [row for row in rows if not _is_there(engine, row)]
    refused = list[Refusal]()
    for (updates, stories, language), alike in groupby(new, _options):
        pairs = [(row["name"], row["query"]) for row in alike]
        for start in range(0, len(pairs), _TOGETHER):
            some = pairs[start : start + _TOGETHER]
            options = RegistrationOptions(updates, stories, language)
            errors = engine.catalog.subscribe_each(some, options)
            for (name, _), error in zip(some, errors, strict=True):
                if isinstance(error, StoreError):
                    raise error
                if error is not None:
                    refused.append(Refusal(name, error))
    return len(new) - len(refused), refused


def _is_there(engine: Engine, row: StoredRow) -> bool:
    found = engine.subscription(row["name"])
    return found is not None and (found.query, found.updates, found.stories, found.language) == (
        row["query"],
        *_options(row),
    )


def _options(row: StoredRow) -> tuple[bool, bool, str]:
    return bool(row["updates"]), bool(row["stories"]), row["language"] or XSCL


def _add_endpoints(
    engine: Engine, store: Store, rows: Mapping[str, list[StoredRow]], secrets: Credentials
) -> int:
    """Write endpoints, secret addresses and tags of registered subscriptions.

    Return the count of new endpoints.  Their secrets are written before their rows.
    """
    position = engine.log.position()
    fresh = {"position": position, "failures": 0, "next_try": 0, "note": ""}
    registered = {subscription.name for subscription in engine.subscriptions}
    wanted = [row | fresh for row in rows["endpoint"] if row["subscription"] in registered]
    there = {row["id"] for row in rows_of(store, "endpoint", "id")}
    secrets.change(
        {secrets_key(row["id"]): row["secrets"] for row in wanted if row["id"] not in there}
    )
    addresses = [
        row
        for row in rows["secret_address"]
        if row["subscription"] in registered or not owner_name(row["subscription"])
    ]
    with store.transaction():
        insert_missing(store, "secret_address", addresses)
        tags = [row for row in rows["subscription_tag"] if row["subscription"] in registered]
        insert_missing(store, "subscription_tag", tags)
        return insert_missing(store, "endpoint", wanted)
