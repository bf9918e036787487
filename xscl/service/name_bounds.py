"""The bounds of names that come with a whole table: in an export, or in a backup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from xscl.language.names import (
    LONGEST_LABEL,
    LONGEST_NAME,
    LONGEST_STREAM,
    NAME,
    PREFIX,
    in_short,
    is_plain,
)
from xscl.polling.feed import LONGEST_URL
from xscl.service.accounts import LONGEST_USER
from xscl.service.marks import LONGEST_NAME as LONGEST_STATEMENT
from xscl.service.tags import LONGEST as LONGEST_TAG
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store

_STREAM = LONGEST_STREAM + PREFIX
NAMES: Mapping[str, Mapping[str, int]] = {
    "account": {"name": LONGEST_USER},
    "token": {"label": LONGEST_LABEL},
    "owned_stream": {"name": _STREAM},
    "stream": {"name": _STREAM},
    "subscription": {"name": LONGEST_NAME + PREFIX},
    "feed": {"stream": _STREAM, "title": LONGEST_NAME, "site_url": LONGEST_URL, "url": LONGEST_URL},
    "secret_address": {"label": LONGEST_LABEL},
    "subscription_tag": {"tag": LONGEST_TAG},
    "saved_statement": {"name": LONGEST_STATEMENT},
}
"""Maximum number of characters of the names in each table, by column."""


def unfit_names(rows: Mapping[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield a message for each name in rows of tables: too long, not printable, or no text."""
    for table, columns in NAMES.items():
        for row in rows.get(table, ()):
            for column, most in columns.items():
                name = row[column]
                owner = table.replace("_", " ")
                if name is None:
                    continue
                if not isinstance(name, str):
                    yield f"the {column} of a {owner} is no text"
                elif len(name) > most:
                    yield (
                        f"the {column} {in_short(name)} of a {owner} has {len(name):,} characters,"
                        f" and {most:,} are allowed"
                    )
                elif not (is_plain(name) or re.fullmatch(NAME, name)):  # `NAME` is for streams
                    yield f"the {column} {in_short(name)} of a {owner} cannot be printed"


def names_in(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return the names in a store by table, as rows with the columns of `NAMES`."""
    return {table: list(rows_of(store, table, *columns)) for table, columns in NAMES.items()}
