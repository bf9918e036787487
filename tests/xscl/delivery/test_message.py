"""The bounds of one message: its number of matches, and its length."""

from __future__ import annotations

import json

import pytest

import xscl
from xscl.delivery.message import LARGEST, TOGETHER, messages_of
from xscl.delivery.wording import CUT

EACH = "S//item//a->x FOLLOWED BY{x=y, 1 d} S//item//a->y"


def matches(items: int, text: str = "hi") -> list[xscl.Match]:
    with xscl.Engine() as engine:
        engine.subscribe("pairs", EACH)
        for number in range(2):
            xml = f"<item>{f'<a>{text}</a>' * items}</item>".encode()
            engine.push([xscl.Document("S", f"d{number}", number, xml)])
        found = list(engine.matches())
        assert all(match.xml() for match in found)
        return found


def test_matches_of_the_same_documents_are_messages_of_a_hundred() -> None:
    found = matches(16)
    sizes = [len(one.matches) for one in messages_of(found)]
    assert sum(sizes) == len(found) == 256
    assert sizes == [TOGETHER, TOGETHER, 56]


@pytest.mark.parametrize("size", [10, LARGEST])
def test_texts_of_a_large_message_are_cut(size: int) -> None:
    (one,) = messages_of(matches(1, "x" * size))
    data = json.loads(one.json())["data"]
    (value,) = {
        node["value"]
        for match in data["matches"]
        for nodes in match["bindings"].values()
        for node in nodes
    }
    assert data.get("cut", False) is (size > 10)
    assert len(value) == size if size == 10 else len(value) <= CUT
    assert len(one.json()) < LARGEST
