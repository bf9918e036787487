"""Callbacks and their secrets."""

from __future__ import annotations

import json
from pathlib import Path

from xscl.polling.credentials import NAME, Credentials, secrets_in
from xscl.polling.websub_callbacks import PATH, TOKEN, HubCallbacks


def test_callbacks_differ_by_feed_hub_and_topic_and_stay(tmp_path: Path) -> None:
    file = tmp_path / NAME
    callbacks = HubCallbacks("https://push.example/", lambda: secrets_in(file))
    named = [("a", "h", "t"), ("b", "h", "t"), ("a", "i", "t"), ("a", "h", "u"), ("a", "ht", "")]
    tokens = [callbacks.token(*each) for each in named]
    assert len({*tokens, *map(callbacks.secret, tokens)}) == 2 * len(named)
    assert all(TOKEN.fullmatch(token) for token in tokens)
    assert callbacks.address(tokens[0]) == f"https://push.example{PATH}{tokens[0]}"
    again = HubCallbacks("https://push.example", lambda: Credentials(file))
    assert [again.token(*each) for each in named] == tokens
    assert again.secret(tokens[0]) == callbacks.secret(tokens[0])
    assert tokens[0] not in file.read_text()
    assert list(json.loads(file.read_text())) == ["websub"]
    other = HubCallbacks("https://push.example", Credentials)
    assert other.token(*named[0]) != tokens[0]
