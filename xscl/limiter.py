"""Limits by key: holders at a time, requests a minute, counts a day.

State is in memory, so a restart of the process resets it.  Each limiter has a lock of its own; any
thread and any event loop may use it.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

from xscl.errors import XsclError

K = TypeVar("K", bound=Hashable)

_MINUTE = 60.0
_DAY = 86_400
_REMEMBERED = 10_000  # most keys with a token bucket


class TooManyConcurrent(XsclError):
    """As many requests are in progress as may be, of one user or of all."""

    code = "busy"


class RateExceeded(XsclError):
    """A key has used its tokens; `wait` is the seconds until the next one."""

    code = "too_many_requests"

    def __init__(self, per_minute: int, wait: float) -> None:
        super().__init__(
            f"you may ask {per_minute} times a minute", hint="wait as long as Retry-After says"
        )
        self.wait = math.ceil(wait)


class KeyedLimiter(Generic[K]):
    """A counting semaphore for each key; waiters of a key are served in order of arrival.

    A key without holders and waiters uses no memory.  All callers give the same limit for a key.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[K] = Counter()
        # Futures of `concurrent.futures`, as threads wait for them as well as event loops.
        self._waiters: dict[K, deque[Future[None]]] = {}

    def held(self, key: K) -> int:
        """Return the number of holders of a key."""
        return self._held[key]

    @property
    def keys(self) -> int:
        """The number of keys with holders."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """The number of waiters for all keys together."""
        with self._lock:
            return sum(map(len, self._waiters.values()))

    def try_acquire(self, key: K, limit: int | None) -> bool:
        """Acquire a slot of a key if one is free, or without a limit; return True if acquired."""
        with self._lock:
            return self._acquired(key, limit)

    def release(self, key: K) -> None:
        """Hand a slot to the first waiter of its key, or free it."""
        with self._lock:
            waiters = self._waiters.get(key)
            while waiters:
                first = waiters.popleft()
                if first.set_running_or_notify_cancel():
                    first.set_result(None)
                    break
            else:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
            if waiters is not None and not waiters:
                del self._waiters[key]

    @contextmanager
    def hold(
        self, key: K, limit: int | None, refusal: Exception, timeout: float | None = 0.0
    ) -> Iterator[None]:
        """Hold a slot while the block runs; raise `refusal` if none is free within `timeout`."""
        waiter = self._enqueue(key, limit)
        if waiter is not None:
            with self._awaited(key, waiter, refusal):
                waiter.result(timeout)
        try:
            yield
        finally:
            self.release(key)

    @asynccontextmanager
    async def hold_async(
        self, key: K, limit: int | None, refusal: Exception | None = None, timeout: float = math.inf
    ) -> AsyncIterator[None]:
        """Hold a slot as `hold` does, without blocking the event loop."""
        waiter = self._enqueue(key, limit)
        if waiter is not None:
            with self._awaited(key, waiter, refusal or TimeoutError()):
                async with asyncio.timeout(None if timeout == math.inf else timeout):
                    await asyncio.wrap_future(waiter)
        try:
            yield
        finally:
            self.release(key)

    def _acquired(self, key: K, limit: int | None) -> bool:
        if limit is not None and self._held[key] >= limit:
            return False
        self._held[key] += 1
        return True

    def _enqueue(self, key: K, limit: int | None) -> Future[None] | None:
        """Acquire a slot and return None, or return a future that `release` completes with one."""
        with self._lock:
            if self._acquired(key, limit):
                return None
            waiter = Future[None]()
            self._waiters.setdefault(key, deque()).append(waiter)
            return waiter

    @contextmanager
    def _awaited(self, key: K, waiter: Future[None], refusal: Exception) -> Iterator[None]:
        """Abandon a waiter if the wait in the block fails; raise `refusal` for a timeout."""
        try:
            yield
        except BaseException as error:
            self._abandon(key, waiter)
            if isinstance(error, TimeoutError):
                raise refusal from None
            raise

    def _abandon(self, key: K, waiter: Future[None]) -> None:
        """Leave the queue, or release the slot that was handed over meanwhile."""
        with self._lock:
            waiters = self._waiters.get(key, deque())
            if waiter in waiters:
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[key]
                return
        if not waiter.cancelled():  # `release` passes over a waiter that was cancelled
            self.release(key)


@dataclass(eq=False)
class FairLimiter:
    """Slots for `total` holders, at most one for each user, who may have `queued` waiters more.

    A request beyond that is refused at once, so a user can neither use the slots of all others nor
    block the threads in which they would wait.  A holder waits `timeout` seconds at most, for the
    same user's earlier ones and for a slot together.  With `waits_for_own` the earlier ones are
    awaited without a limit, and `timeout` begins after them.  `clock` returns seconds.
    """

    total: int
    queued: int = 1
    timeout: float = 2.0
    _: KW_ONLY
    waits_for_own: bool = False
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._admitted = KeyedLimiter[int]()
        self._own = KeyedLimiter[int]()
        self._all = KeyedLimiter[None]()

    @contextmanager
    def hold(self, user: int) -> Iterator[None]:
        """Hold a slot for a user while the block runs; raises TooManyConcurrent."""
        own = TooManyConcurrent(
            "your earlier request is still in progress", hint="send one after the other"
        )
        full = TooManyConcurrent("too many concurrent requests", hint="retry in a few seconds")
        begun = self.clock()
        with (
            self._admitted.hold(user, 1 + self.queued, own),
            self._own.hold(user, 1, own, None if self.waits_for_own else self.timeout),
        ):
            waited = 0.0 if self.waits_for_own else self.clock() - begun
            with self._all.hold(None, self.total, full, max(0.0, self.timeout - waited)):
                yield


class TokenBuckets(Generic[K]):
    """A token bucket for each key: full with a minute's tokens, filled at that rate.

    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[K, tuple[float, float]] = {}  # tokens, and the time they were counted

    def consume(self, key: K, per_minute: int | None) -> None:
        """Consume a token; raises RateExceeded.  None is no limit, and costs nothing."""
        if per_minute is None:
            return
        now = self._clock()
        with self._lock:
            level, at = self._levels.pop(key, (float(per_minute), now))
            if len(self._levels) >= _REMEMBERED:  # keys may be the addresses of strangers
                del self._levels[next(iter(self._levels))]
            level = min(float(per_minute), level + (now - at) * per_minute / _MINUTE)
            is_allowed = level >= 1.0
            self._levels[key] = level - is_allowed, now
        if not is_allowed:
            wait = (1.0 - level) * _MINUTE / per_minute if per_minute else _MINUTE
            raise RateExceeded(per_minute, wait)


class DailyQuota(Generic[K]):
    """A count for each key that starts at 0 with each UTC day; `clock` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._day = 0
        self._used: Counter[K] = Counter()

    def consume(self, key: K, limit: int | None = None, count: int = 1) -> float | None:
        """Add to a count and return None; at the limit, return the seconds until the next day."""
        with self._lock:
            now = self._roll_over()
            if limit is not None and self._used[key] + count > limit:
                return _DAY - now % _DAY
            self._used[key] += count
            return None

    def refund(self, key: K) -> None:
        """Subtract 1 from a count, for a use that failed."""
        with self._lock:
            self._roll_over()
            self._used[key] = max(0, self._used[key] - 1)

    def used(self, key: K) -> int:
        """Return the count of today."""
        with self._lock:
            self._roll_over()
            return self._used[key]

    def _roll_over(self) -> float:
        """Clear the counts of an earlier day; return the time."""
        now = self._clock()
        if int(now) // _DAY != self._day:
            self._day = int(now) // _DAY
            self._used.clear()
        return now
