"""Secrets of feeds, in a file of their own that no SQL, listing, log or status reads.

    {"<key of the feed>": {"headers": [["Authorization", "Basic ..."]], "given_for": "https://...",
                           "url": "https://...?token=...", "before": {"url": "..."}}}

The secrets are headers (user name and password are one), the address that they are for, and
addresses that look secret.  The table of feeds has these addresses masked
(`xscl.polling.feed.shown`).

The file `secrets.json` is beside the database, readable by its owner only, and replaced atomically.
It is written before the feed's row: after a kill in between there may be a secret without a feed,
which is harmless, but never a feed without its secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from xscl.atomic_files import write_durably
from xscl.errors import StoreError
from xscl.polling.feed import Feed, FeedsError, shown

NAME = "secrets.json"

BEFORE = "before"
ADDRESSES = ("url", "validated_by", "moved_to")
"""The fields of a feed that may hold a secret address."""

Hidden: TypeAlias = dict[str, Any]
"""Secret fields of a feed by name, headers as lists; `before` has addresses just replaced."""


class Credentials:
    """The secrets of feeds by key: in a file, or in memory only.

    All users of a file in one process share one object (`secrets_in`).
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._kept: dict[str, Hidden] = {}
        self.read()

    def read(self) -> None:
        """Read the secrets from the file, if there is one, in place of those in memory."""
        if self._path is not None:
            with self._mutex:
                self._kept = _read(self._path)

    def filled(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a feed's row with their secrets filled in.

        A previous address applies if the row was not written before a kill.
        """
        kept = self._kept.get(row["key"], {})
        filled = dict(row)
        for name in ADDRESSES:
            for address in (kept.get(name), kept.get(BEFORE, {}).get(name)):
                if address is not None and shown(address) == row[name]:
                    filled[name] = address
                    break
        filled["headers"] = tuple((name, value) for name, value in kept.get("headers", ()))
        return filled | {"given_for": kept.get("given_for", "")}

    def of(self, key: str) -> Hidden:
        """Return the secrets under a key that is no feed's."""
        return dict(self._kept.get(key, {}))

    def keep(self, feeds: Iterable[Feed]) -> None:
        """Store the secrets of feeds; durable on return."""
        self.change({feed.key: hidden(feed) for feed in feeds})

    def change(self, wanted: Mapping[str, Hidden]) -> None:
        """Replace the secrets under some keys, durably; `before` keeps replaced addresses."""
        changed: dict[str, Hidden] = {}
        with self._mutex:
            for key, one in wanted.items():
                last = {n: value for n, value in self._kept.get(key, {}).items() if n != BEFORE}
                if last != one:  # what is replaced stays until the feed's row is written
                    replaced = {
                        n: last[n] for n in ADDRESSES if last.get(n) not in (None, one.get(n))
                    }
                    changed[key] = one | ({BEFORE: replaced} if replaced else {})
            if changed:
                self._replace(self._kept | changed)

    def forget(self, key: str) -> None:
        """Delete the secrets under a key, durably."""
        with self._mutex:
            if key in self._kept:
                self._replace({other: one for other, one in self._kept.items() if other != key})

    def _replace(self, kept: dict[str, Hidden]) -> None:
        kept = {key: one for key, one in kept.items() if one}
        if self._path is not None:
            try:
                write_durably(self._path, json.dumps(kept).encode())
            except OSError as error:
                raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
        self._kept = kept


def hidden(feed: Feed) -> Hidden:
    """Return the secret fields of a feed, which the table of feeds must not contain."""
    addresses = {name: getattr(feed, name) for name in ADDRESSES}
    found: Hidden = {
        name: address
        for name, address in addresses.items()
        if address and shown(address) != address
    }
    if feed.headers:
        found |= {"headers": [list(header) for header in feed.headers], "given_for": feed.given_for}
    return found


_SHARED: WeakValueDictionary[Path, Credentials] = WeakValueDictionary()
_OPENING = threading.Lock()


def secrets_in(path: Path) -> Credentials:
    """Return the object for the secrets in a file, the same for all callers; read it again."""
    with _OPENING:
        place = path.resolve()
        found = _SHARED.get(place)
        if found is None:
            found = _SHARED[place] = Credentials(place)
        else:
            found.read()  # a backup of the file may have been put back
        return found


def _read(path: Path) -> dict[str, Hidden]:
    try:
        read = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        read = None
    if not isinstance(read, dict) or not all(isinstance(one, dict) for one in read.values()):
        raise FeedsError(
            f"the file of the feeds' secrets {path} is damaged",
            hint="put it back from a backup, or move it away and give the headers again",
        )
    return read


class InstallationKey:
    """A random key of this installation, kept in its secrets under a name that is no feed's key.

    `credentials` are those of the installation; they are read when the key is first used.
    """

    def __init__(self, name: str, credentials: Callable[[], Credentials]) -> None:
        self._name = name
        self._credentials = credentials
        self._mutex = threading.Lock()
        self._key: bytes | None = None

    def digest_of(self, *parts: str) -> str:
        """Return the HMAC of texts under the key, in hex: nobody else can make it."""
        message = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hmac.new(self._secret_key(), message, hashlib.sha256).hexdigest()

    def _secret_key(self) -> bytes:
        with self._mutex:
            if self._key is None:
                credentials = self._credentials()
                kept = credentials.of(self._name).get("key") or secrets.token_hex(32)
                credentials.change({self._name: {"key": kept}})
                self._key = bytes.fromhex(kept)
            return self._key
