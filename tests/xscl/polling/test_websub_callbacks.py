"""Callbacks and their secrets; content on its way to the thread that polls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xscl.errors import Stopping
from xscl.polling.credentials import NAME, Credentials, secrets_in
from xscl.polling.websub_callbacks import PATH, TOKEN, Push, Pushes, refuse


def test_callbacks_differ_by_feed_hub_and_topic_and_stay(tmp_path: Path) -> None:
    file = tmp_path / NAME
    pushes = Pushes("https://push.example/", lambda: secrets_in(file))
    named = [("a", "h", "t"), ("b", "h", "t"), ("a", "i", "t"), ("a", "h", "u"), ("a", "ht", "")]
    tokens = [pushes.token(*each) for each in named]
    assert len({*tokens, *map(pushes.secret, tokens)}) == 2 * len(named)
    assert all(TOKEN.fullmatch(token) for token in tokens)
    assert pushes.address(tokens[0]) == f"https://push.example{PATH}{tokens[0]}"
    again = Pushes("https://push.example", lambda: Credentials(file))
    assert [again.token(*each) for each in named] == tokens
    assert again.secret(tokens[0]) == pushes.secret(tokens[0])
    assert tokens[0] not in file.read_text()
    assert list(json.loads(file.read_text())) == ["websub"]
    other = Pushes("https://push.example", Credentials)
    assert other.token(*named[0]) != tokens[0]


def test_at_the_end_what_waits_and_what_comes_is_refused() -> None:
    pushes, waiting = Pushes("https://push.example", Credentials), Push("a", (), 0)
    pushes.put(waiting)
    pushes.close()
    with pytest.raises(Stopping):
        waiting.done.result(0)
    with pytest.raises(Stopping):
        pushes.put(Push("a", (), 0))


def test_what_is_durable_is_not_refused_afterwards() -> None:
    durable, lost = Push("a", (), 0), Push("a", (), 0)
    durable.done.set_result(None)
    refuse([durable, lost], OSError("broken"))
    assert durable.done.result(0) is None
    with pytest.raises(OSError, match="broken"):
        lost.done.result(0)
