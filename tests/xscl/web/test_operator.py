"""The operator's page: users, limits, tokens, what is busy and what fails."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx

from tests.xscl.service.conftest import eventually
from tests.xscl.web.shown import Shop, parsed


def section(shop: Shop, name: str) -> Any:
    return parsed(shop.client.get("/operator").text).get_element_by_id(name)


def flat(element: Any) -> str:
    return " ".join(element.text_content().split())


def test_the_operator_makes_a_user_limits_and_revokes(shop: Shop) -> None:
    form = {"user": "carol <b>", "label": "tablet"}
    made = shop.client.post("/account/token", data=form)
    (token,) = re.findall(r"xscl_[0-9a-f]{8}_[\w-]+", made.text)
    assert token not in shop.client.get("/operator").text
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=shop.address, headers=headers, trust_env=False) as carol:
        query = {"query": "feeds//a->x"}
        assert carol.put("/v1/subscriptions/one", json=query).status_code == 201
        assert carol.get("/operator").status_code == 403
        assert "Operator" not in flat(parsed(carol.get("/").text).xpath("//nav")[0])
        limits = {"subscriptions": "1", "feeds": ""}
        set_ = shop.client.post("/operator/quota?user=carol+%3Cb%3E", data=limits)
        assert set_.status_code == 303
        assert carol.get("/v1/me").json()["quota"] == dict.fromkeys(
            carol.get("/v1/me").json()["quota"], None
        ) | {"subscriptions": 1}
        assert "carol <b> 1 subscription ·" in flat(section(shop, "users"))
        assert "no subscriptions left" in flat(section(shop, "users"))
        assert carol.put("/v1/subscriptions/two", json=query).status_code == 403
        mine = parsed(carol.get("/account").text)
        assert "1 of 1" in re.sub(r"(\d)of", r"\1 of", flat(mine.xpath("//dl")[0]))
        other = carol.post("/account/token", data={"label": "phone"}).text
        (second,) = re.findall(r"xscl_([0-9a-f]{8})_", other)
        assert carol.post("/account/token/revoke", data={"id": second}).status_code == 303
        assert second not in carol.get("/account").text
        wrong = {"subscriptions": "-1"}
        assert shop.client.post("/operator/quota?user=carol+%3Cb%3E", data=wrong).status_code == 422
        name = token.split("_")[1]
        assert shop.client.post("/account/token/revoke", data={"id": name}).status_code == 303
        assert carol.get("/v1/me").status_code == 401
    form = {"user": "carol <b>", "sure": "carol"}
    assert shop.client.post("/operator/erase", data=form).status_code == 422
    assert "carol" in flat(section(shop, "users"))
    assert shop.client.post("/operator/erase", data=form | {"sure": "carol <b>"}).status_code == 303
    assert "carol <b>" not in flat(section(shop, "users"))  # other tests may have a carol


def test_busy_subscriptions_and_failing_deliveries_are_listed(shop: Shop, deaf: str) -> None:
    cells = [[flat(one) for one in row] for row in section(shop, "busiest").xpath(".//tbody/tr")]
    counts = [int(count.replace(",", "")) for _, count in cells]
    assert counts == sorted(counts, reverse=True)
    assert "tricky" in [name for name, _ in cells]
    shop.subscribe("failing", "failing//a->x")
    hook = {"kind": "webhook", "url": f"http://{deaf}/hook"}
    shop.client.post("/v1/subscriptions/failing/endpoints", json=hook)
    shop.push("failing", b"<a/>", "failing1", int(time.time() * 1e6))
    eventually(lambda: "failing, by webhook 1 failure in a row" in flat(section(shop, "failing")))
    shop.client.delete("/v1/subscriptions/failing", params={"purge": True})
    assert "failing, by webhook" not in flat(section(shop, "failing"))
