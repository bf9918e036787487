"""Each channel is at all of its surfaces; `xscl.delivery.endpoint` declares them."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import get_args

import httpx
import pytest

from tests.project import ROOT
from tests.xscl.service.conftest import ok
from xscl.delivery.endpoint import CHANNELS, Kind
from xscl.service.routes import deliveries


def test_every_kind_has_a_channel() -> None:
    assert set(CHANNELS) == set(get_args(Kind))


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_channel_is_everywhere(kind: str, operator: httpx.Client) -> None:
    channel = CHANNELS[kind]
    assert channel.target in {one.name for one in fields(channel)}
    outbox = (ROOT / "xscl/delivery/outbox/outbox.py").read_text()
    assert any(re.search(rf"case {one.__name__}\(", outbox) for one in channel.__mro__), "a sender"
    models = {
        get_args(model.model_fields["kind"].annotation)[0]: model
        for model in get_args(get_args(deliveries.NewEndpoint)[0])
    }
    assert kind in models, "a model of the API"
    assert channel.target in models[kind].model_fields, "the target in its model"
    ok(operator.put("/v1/subscriptions/any", json={"query": "S//a"}))
    page = operator.get("/subscriptions/any").text
    assert f'<option value="{kind}"' in page, "the form of the page"
    assert f'"kind": "{kind}"' in (ROOT / "docs/deliveries.md").read_text(), "the documentation"


def test_an_address_as_it_is_shown_is_none(operator: httpx.Client) -> None:
    """A change by what an answer shows would lose the address."""
    ok(operator.put("/v1/subscriptions/any", json={"query": "S//a"}))
    new = {"kind": "slack", "url": "https://hooks.invalid/services/KEY"}
    made = ok(operator.post("/v1/subscriptions/any/endpoints", json=new))
    shown = {"url": "https://hooks.invalid/***"}
    for answer in (
        operator.post("/v1/subscriptions/any/endpoints", json={**new, **shown}),
        operator.patch(f"/v1/subscriptions/any/endpoints/{made['id']}", json=shown),
    ):
        assert "give the whole address" in answer.json()["detail"]
