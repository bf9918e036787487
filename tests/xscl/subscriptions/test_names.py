"""Names of subscriptions, asked for while other threads register."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import count

import pytest

import xscl
from xscl.errors import UnknownSubscription

NUMBERS = count()


def test_an_unknown_name_is_compared_with_those_of_one_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deliveries ask without the engine's lock; a registration comes between two comparisons."""
    compare = difflib.get_close_matches
    with xscl.Engine() as engine:
        engine.subscribe("orders", "S//a->x")

        def slowly(name: str, names: Iterable[str], n: int) -> list[str]:
            def one_by_one() -> Iterable[str]:
                for one in names:
                    engine.subscribe(f"other {next(NUMBERS)}", "S//a->x")
                    yield one

            return compare(name, one_by_one(), n)

        monkeypatch.setattr(difflib, "get_close_matches", slowly)
        with pytest.raises(UnknownSubscription, match="order") as caught:
            engine.state.subscriptions["order"]
        assert caught.value.hint == "did you mean 'orders'?"
