"""Users that come and go, and crowds: requests of a new user that together exceed its quota."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.simulation.clients import PAIRS, Act, at_the_same_time
from tests.simulation.host import Host
from tests.simulation.model import Account, Model, Stream
from tests.simulation.scheduler import NS
from tests.simulation.service import TOKENS
from tests.simulation.sites import HOOK
from tests.soak.oracle import QUERY

AT_FIRST = 3
COMING, LEAVING, CROWDS = 1.0, 1.0, 5.0
"""An hour.  Two crowds missed a planted defect of quotas for ten hours."""
STREAM = "orders"
"""The stream of each user: all have the same names."""
ALLOWED = 2
"""The quota of a user of a crowd, of everything."""


class Users:
    """Creates users, revokes their tokens, and lets them ask for too much."""

    def __init__(self, host: Host, model: Model, draw: random.Random) -> None:
        self._host = host
        self._model = model
        self._draw = draw
        self._made = 0

    def acts(self) -> Sequence[Act]:
        """Return the clients."""
        return [
            ("coming", COMING, self._come),
            ("leaving", LEAVING, self._leave),
            ("crowd", CROWDS, self._crowd),
        ]

    def prepare(self) -> None:
        """Create the first users."""
        for _ in range(AT_FIRST):
            self._come()

    def _come(self) -> None:
        """Create a user with a stream, a subscription and a webhook."""
        user = self._create("u")
        until = self._host.until
        until(user, "PUT", f"/v1/streams/{STREAM}", {"live": True})
        stream = Stream(STREAM, PAIRS)
        until(user, "PUT", f"/v1/subscriptions/{PAIRS}", {"query": QUERY.format(stream=STREAM)})
        hook = {"kind": "webhook", "url": f"http://{HOOK}/{user.mark}", "after": 0}
        made = until(user, "POST", f"/v1/subscriptions/{PAIRS}/endpoints", hook)
        stream.hook = json.loads(made.body)["id"]
        user.streams.append(stream)
        self._model.users.append(user)

    def _leave(self) -> None:
        """Revoke the tokens of a user, which are worth nothing from then on."""
        users = self._model.active_users
        if len(users) <= 1:
            return
        user, operator = self._draw.choice(users), self._model.operator
        user.is_revoked = True
        time.sleep(90)  # its last requests are answered
        for token in json.loads(self._host.until(operator, "GET", "/v1/tokens").body):
            if token["user"] == user.mark:
                self._host.until(operator, "DELETE", f"/v1/tokens/{token['id']}")
        self._model.counts["revoked"] += 1
        if (status := self._host.ask(user, "GET", "/v1/me").status) != 401:
            self._host.journal.wrong(f"the token of {user.mark} was revoked, and gets {status}")

    def _create(self, kind: str) -> Account:
        self._made += 1
        self._model.counts["users"] += 1
        mark = f"{kind}{self._made}m"
        made = self._host.until(self._model.operator, "POST", "/v1/tokens", {"user": mark})
        return Account(mark, token=json.loads(made.body)["token"])

    # Quotas

    def _crowd(self) -> None:
        """Send concurrent requests of a new user that together exceed its quota."""
        user = self._create("q")
        operator = self._model.operator
        limits = dict.fromkeys(("subscriptions", "streams", "documents_a_day"), ALLOWED)
        self._host.until(operator, "PUT", f"/v1/accounts/{user.mark}/quota", limits)
        self._model.quotas[user.mark] = ALLOWED
        self._host.until(user, "PUT", f"/v1/streams/{STREAM}", {"live": True})
        self._model.counts["crowds"] += 1
        done: list[str] = []
        spread = self._draw.choice([0.0, 0.001, 0.01])

        def ask(method: str, path: str, told: object, query: dict[str, str] | None = None) -> None:
            time.sleep(self._draw.uniform(0, spread))
            if self._host.ask(user, method, path, told, query).status < 300:
                done.append(path.split("/")[2])

        def subscribe(number: int) -> None:
            self._model.counts["registrations"] += 1
            query = f"{STREAM}//a[./k->x] FOLLOWED BY{{x=y, {number + 1} d}} {STREAM}//b[./k->y]"
            ask("PUT", f"/v1/subscriptions/{user.mark}-{number}", {"query": query})

        def push(number: int) -> None:
            self._model.counts["pushes"] += 1
            name = f"{user.mark}-{number}"
            ask("POST", f"/v1/documents/{STREAM}", b"<a><k>1</k></a>", {"id": name})

        def make_token() -> None:
            ask("POST", "/v1/tokens", {"label": "another"})

        works: list[Callable[[], None]] = [partial(subscribe, number) for number in range(5)]
        works += [partial(push, number) for number in range(5)]
        before = self._circumstances()
        at_the_same_time([*works, *[make_token] * 4])
        tokens = json.loads(self._host.until(user, "GET", "/v1/tokens").body)
        own = [one for one in tokens if one["label"]]
        # The operator may make any number, and repeats a request that a crash left unanswered.
        if own and len(tokens) > TOKENS:
            self._host.journal.wrong(
                f"{user.mark} may have {TOKENS} tokens, made {len(own)}, and has {len(tokens)}"
            )
        if done.count("subscriptions") > ALLOWED:
            self._host.journal.wrong(f"{user.mark} may have {ALLOWED} subscriptions: {done}")
        if done.count("documents") > ALLOWED and self._circumstances() == before:
            self._host.journal.wrong(f"{user.mark} may send {ALLOWED} documents a day: {done}")

    def _circumstances(self) -> tuple[int, int]:
        """Return the life and the day: counts of a day are in the memory of one process."""
        scheduler = self._host.scheduler
        day = (scheduler.now + scheduler.wall_offset) // (86_400 * NS)
        return self._host.lives, day
