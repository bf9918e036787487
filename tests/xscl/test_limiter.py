"""Limiters: by key at a time, per minute, per day, from threads and event loops."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from tests.waiting import PATIENCE, eventually
from xscl.limiter import (
    DailyQuota,
    FairLimiter,
    KeyedLimiter,
    RateExceeded,
    TokenBuckets,
    TooManyConcurrent,
)

ALICE, BOB, CAROL = range(1, 4)
FULL = TooManyConcurrent("full")


def test_one_user_does_not_hold_all_slots() -> None:
    limiter = FairLimiter(2, timeout=0.01)
    with limiter.hold(BOB):
        with pytest.raises(TooManyConcurrent), limiter.hold(BOB):
            pass
        with limiter.hold(ALICE), pytest.raises(TooManyConcurrent), limiter.hold(CAROL):
            pass
        with limiter.hold(CAROL):
            pass
    with limiter.hold(BOB):
        pass


def test_without_a_queue_a_user_is_refused_at_once() -> None:
    limiter = FairLimiter(4, 0, 0.0)
    refused = pytest.raises(TooManyConcurrent, match="earlier request")
    with limiter.hold(BOB), refused, limiter.hold(BOB):
        pass
    with ExitStack() as taken:
        for number in range(4):
            taken.enter_context(limiter.hold(number))
        with pytest.raises(TooManyConcurrent, match="too many concurrent"), limiter.hold(9):
            pass


def test_the_own_slot_and_the_total_have_one_deadline() -> None:
    now, hour = [0.0], 3_600.0
    limiter = FairLimiter(1, timeout=hour, clock=lambda: now[0])
    refused = list[str]()
    bob_is_refused = threading.Event()

    def ask_as_alice() -> None:
        with limiter.hold(ALICE):
            bob_is_refused.wait(2 * PATIENCE)

    def ask_as_bob() -> None:
        try:
            with limiter.hold(BOB):
                pass
        except TooManyConcurrent as error:
            refused.append(error.message)
            bob_is_refused.set()

    alice, bob = (threading.Thread(target=ask, daemon=True) for ask in (ask_as_alice, ask_as_bob))
    with limiter.hold(BOB):
        alice.start()
        eventually(lambda: limiter._all.waiting)
        bob.start()
        eventually(lambda: limiter._own.waiting)
        now[0] += hour
    bob.join(PATIENCE)
    alice.join(PATIENCE)
    assert refused == ["too many concurrent requests"]


def test_a_thread_and_a_loop_wait_for_the_same_key() -> None:
    limiter, order = KeyedLimiter[str](), list[str]()

    def in_thread() -> None:
        with limiter.hold("a", 1, FULL, PATIENCE):
            order.append("thread")

    async def in_loop() -> None:
        async with limiter.hold_async("a", 1, FULL, PATIENCE):
            order.append("loop")

    with limiter.hold("a", 1, FULL):
        waiting = [threading.Thread(target=in_thread)]
        waiting.append(threading.Thread(target=lambda: asyncio.run(in_loop())))
        for number, one in enumerate(waiting, 1):
            one.start()
            eventually(lambda number=number: limiter.waiting == number)  # type: ignore[misc]  # mypy infers no type for the default
        with limiter.hold("b", 1, FULL):
            assert (limiter.keys, order) == (2, [])
    for one in waiting:
        one.join(PATIENCE)
    assert order == ["thread", "loop"]
    assert (limiter.keys, limiter.waiting) == (0, 0)


def test_a_cancelled_waiter_keeps_no_slot() -> None:
    """Before a slot is handed over, and in the moment after it."""

    async def run() -> None:
        limiter, inside = KeyedLimiter[int](), list[str]()

        async def wait(name: str) -> None:
            async with limiter.hold_async(1, 1):
                inside.append(name)

        for is_handed_over in (False, True):
            async with limiter.hold_async(1, 1):
                first, second = (asyncio.create_task(wait(name)) for name in ("first", "second"))
                await asyncio.sleep(0)
                assert limiter.waiting == 2
                if not is_handed_over:
                    first.cancel()
                    await asyncio.gather(first, return_exceptions=True)
                    assert limiter.waiting == 1
            first.cancel()
            await asyncio.gather(first, second, return_exceptions=True)
            assert first.cancelled()
            assert (limiter.keys, limiter.waiting) == (0, 0)
        assert inside == ["second", "second"]

    asyncio.run(run())


def test_a_bucket_is_full_after_a_minute_and_fills_evenly() -> None:
    now = [100.0]
    requests = TokenBuckets[int](lambda: now[0])
    for _ in range(6):
        requests.consume(1, 6)
    with pytest.raises(RateExceeded) as refused:
        requests.consume(1, 6)
    assert refused.value.wait == 10
    requests.consume(2, 1)
    now[0] += 10
    requests.consume(1, 6)
    with pytest.raises(RateExceeded):
        requests.consume(1, 6)
    now[0] += 3_600
    for _ in range(6):
        requests.consume(1, 6)
    with pytest.raises(RateExceeded):
        requests.consume(1, 6)
    for _ in range(100):
        requests.consume(3, None)


def test_the_next_day_begins_anew() -> None:
    now = [86_400.0 * 7 + 80_000]
    mails = DailyQuota[int](lambda: now[0])
    assert [mails.consume(7, 2) for _ in range(3)] == [None, None, 6_400.0]
    assert mails.consume(8, 0) == 6_400.0
    assert [mails.consume(0) for _ in range(5)] == [None] * 5
    mails.refund(7)
    assert mails.used(7) == 1
    now[0] += 6_400
    assert mails.used(7) == 0
    mails.refund(7)
    assert mails.consume(7, 2, count=3) == 86_400.0
    assert mails.consume(7, 2, count=2) is None
