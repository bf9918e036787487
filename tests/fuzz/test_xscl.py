"""Any text in XSCL is registered or refused with a place; documents pass what is registered."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples
from tests.fuzz.grammars import xscl_texts
from tests.fuzz.texts import Texts

AT_ONCE = 60
"""Texts of one example: they share an engine."""
NAMES = ("a", "a", "b", "b", "k", "item", "title", "book", "blog", "author", "category")


@cache
def texts() -> Texts:
    return xscl_texts()


def element(random: Random, depth: int = 0) -> str:
    name = random.choice(NAMES)
    inner = [element(random, depth + 1) for _ in range(random.choice((0, 1, 2, 3)) * (depth < 3))]
    text = "".join(inner) or random.choice(("a", "b", "3", "x y", "1.5", "", "\u00e9"))
    return f"<{name} b='{random.choice('ab3')}'>{text}</{name}>"


def documents(random: Random, number: int, begin: int) -> list[xscl.Document]:
    return [
        xscl.Document(
            random.choice("SSSTR"), f"d{begin + at}", begin + at, element(random).encode()
        )
        for at in range(number)
    ]


def require_place(error: xscl.QueryError) -> None:
    """Require that an error can be shown, and points into its text or to its end."""
    lines = error.source.split("\n")
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert error.message in str(error)


def registered(engine: xscl.Engine, name: str, text: str) -> str:
    """Register a text; return "taken" or the code of what it is refused for."""
    try:
        engine.subscribe(name, text)
    except xscl.QueryError as error:
        require_place(error)
        return error.code
    except xscl.XsclError as error:
        return error.code
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} {error} for {text!r}") from error
    return "taken"


@pytest.mark.hypothesis
def test_a_text_is_registered_or_refused_at_a_place_in_it() -> None:
    outcomes: Counter[str] = Counter()

    @examples(20)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        random = Random(seed)
        engine = xscl.Engine()
        taken = []
        for number in range(AT_ONCE):
            text = texts().text(random)
            outcome = registered(engine, f"q{number}", text)
            outcomes[outcome] += 1
            taken += [text] if outcome == "taken" else []
        try:
            engine.push(documents(random, 6, 10))
            list(engine.push(documents(random, 6, 10_000_000)))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} {error} for {taken}") from error
        finally:
            engine.close()

    check()
    total = sum(outcomes.values())
    assert outcomes["taken"] > total // 10
    assert outcomes["query"] > total // 10
