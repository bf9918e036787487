"""Stars of matches, and the density of lists."""

from __future__ import annotations

import re
import time
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.plain_http import plain_client
from tests.xscl.commandline import called
from tests.xscl.service.conftest import eventually, ok, token_of
from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import TRICKY, Shop, parsed
from xscl.service import marks


def star(client: httpx.Client, article: Any, **form: str) -> httpx.Response:
    """Send the form of a match's star."""
    (found,) = article.xpath(".//form[@action='/matches/star']")
    given = {one.get("name"): one.get("value") for one in found.xpath("./input")}
    given["remove"] = found.xpath("./button")[0].get("value")
    return client.post("/matches/star", data=given | form)


def articles(client: httpx.Client, path: str) -> list[Any]:
    return list(parsed(client.get(path).text).xpath("//article"))


def star_newest(client: httpx.Client) -> str:
    """Star the newest match of the page of matches; return its id."""
    newest = articles(client, "/")[0]
    assert star(client, newest).status_code == 303
    return str(newest.get("data-key"))


def test_a_starred_match_is_listed_as_it_was_until_its_star_is_removed(shop: Shop) -> None:
    before = articles(shop.client, "/?subscription=tricky")
    for one in before[:2]:
        answer = star(shop.client, one, back="/?subscription=tricky")
        assert answer.headers["location"] == "/?subscription=tricky"
    star(shop.client, before[0])  # as a second time: nothing changes
    after = articles(shop.client, "/?subscription=tricky")
    pressed = [one.xpath("string(.//form[@class='star']/button/@aria-pressed)") for one in after]
    assert pressed[:3] == ["true", "true", "false"]
    listed = articles(shop.client, "/starred")
    assert [one.get("data-key") for one in listed] == [
        one.get("data-key") for one in (before[1], before[0])
    ]
    assert listed[1].xpath("string(.//h3)") == before[0].xpath("string(.//h3)")
    for one in listed:
        star(shop.client, one)
    assert articles(shop.client, "/starred") == []


@patch.object(marks, "MOST_STARS", 2)
def test_a_star_stays_with_its_user_follows_a_name_and_leaves_with_a_purge(shop: Shop) -> None:
    ok(shop.client.put("/v1/subscriptions/fleeting", json={"query": TRICKY, "history": True}))
    found = articles(shop.client, "/?subscription=fleeting")
    assert [star(shop.client, one).status_code for one in found[:3]] == [303, 303, 403]
    shop.client.patch("/v1/subscriptions/fleeting", json={"name": "fleeting-2"})
    names = {one.xpath("string(.//h2)") for one in articles(shop.client, "/starred")}
    assert names == {"fleeting-2"}
    with as_user(shop, token_of(shop.client, "stranger")) as other:
        assert articles(other, "/starred") == []
        assert star(other, found[2]).status_code == 404
    shop.send("/subscriptions/remove", name="fleeting-2")
    (one, _) = articles(shop.client, "/starred")
    assert not one.xpath(".//h2/a")
    shop.remove("fleeting-2")
    assert articles(shop.client, "/starred") == []


def test_matches_are_starred_over_http_and_listed_page_by_page(shop: Shop) -> None:
    listed = ok(shop.client.get("/v1/subscriptions/tricky/matches", params={"limit": 2}))["matches"]
    for one in listed:
        ok(shop.client.put(f"/v1/stars/{one['id']}", json={"position": one["position"]}))
    first = ok(shop.client.get("/v1/stars", params={"limit": 1}))
    assert first["next"] is not None
    rest = ok(shop.client.get("/v1/stars", params={"limit": 1, "after": first["next"]}))
    stars = first["items"] + rest["items"]
    assert [one["match"] for one in stars] == [one["id"] for one in reversed(listed)]
    for name in ("timestamp", "position"):
        assert stars[1][name] == listed[0][name]
    assert [one["id"] for one in stars[1]["documents"]] == listed[0]["documents"]
    wrong = shop.client.put(f"/v1/stars/{listed[0]['id']}", json={"position": 1 << 40})
    assert wrong.status_code == 404
    assert called("stars", "--url", shop.address).stdout.startswith("tricky  ")
    for one in listed:
        ok(shop.client.delete(f"/v1/stars/{one['id']}"))
    assert ok(shop.client.get("/v1/stars"))["items"] == []
    assert called("stars", "--url", shop.address).stdout == ""


# -- Stars, density and the operator's page in a browser -----------------------------------


STAR = "article.match form.star button"


@pytest.mark.slow
@pytest.mark.usefixtures("calm")
def test_a_match_is_starred_by_its_key_in_place(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/?subscription=rising")
    browser.one("#reading.reading-on")
    browser.press("j", "s")
    browser.until(lambda: browser.one(STAR).get_attribute("aria-pressed") == "true")
    assert "subscription=rising" in browser.chrome.current_url
    assert browser.shifted() < 0.01
    browser.open(f"{shop.address}/starred")
    assert browser.text("article h2") == "rising"
    browser.press("j", "s")
    browser.until(lambda: browser.one(STAR).get_attribute("aria-pressed") == "false")
    browser.open(f"{shop.address}/starred")
    assert "No match is starred" in browser.text(".empty")


def section(shop: Shop, name: str) -> Any:
    return shop.page("/operator").get_element_by_id(name)


def flat(element: Any) -> str:
    return " ".join(element.text_content().split())


def as_user(shop: Shop, token: str) -> httpx.Client:
    return plain_client(shop.address, headers={"Authorization": f"Bearer {token}"})


def test_the_operator_makes_a_user_limits_and_revokes(shop: Shop) -> None:
    made = shop.send("/account/token", user="carol <b>", label="tablet")
    (token,) = re.findall(r"xscl_[0-9a-f]{8}_[\w-]+", made.text)
    assert token not in shop.client.get("/operator").text
    quota = "/operator/quota?user=carol+%3Cb%3E"
    with as_user(shop, token) as carol:
        query = {"query": "feeds//a->x"}
        ok(carol.put("/v1/subscriptions/one", json=query))
        assert carol.get("/operator").status_code == 403
        assert "Operator" not in flat(parsed(carol.get("/").text).xpath("//nav")[0])
        assert shop.send(quota, subscriptions="1", feeds="").status_code == 303
        limits = ok(carol.get("/v1/me"))["quota"]
        assert limits == dict.fromkeys(limits) | {"subscriptions": 1}
        assert "carol <b> 1 subscription ·" in flat(section(shop, "users"))
        assert "no subscriptions left" in flat(section(shop, "users"))
        assert carol.put("/v1/subscriptions/two", json=query).status_code == 403
        mine = parsed(carol.get("/account").text)
        assert "1 of 1" in re.sub(r"(\d)of", r"\1 of", flat(mine.xpath("//dl")[0]))
        other = carol.post("/account/token", data={"label": "phone"}).text
        (second,) = re.findall(r"xscl_([0-9a-f]{8})_", other)
        assert carol.post("/account/token/revoke", data={"id": second}).status_code == 303
        assert second not in carol.get("/account").text
        assert shop.send(quota, subscriptions="-1").status_code == 422
        assert shop.send("/account/token/revoke", id=token.split("_")[1]).status_code == 303
        assert carol.get("/v1/me").status_code == 401
    for sure, status in (("carol", 422), ("carol <b>", 303)):
        assert "carol" in flat(section(shop, "users"))
        assert shop.send("/operator/erase", user="carol <b>", sure=sure).status_code == status
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
    told = r"failing, by webhook \d+ failures? in a row"
    eventually(lambda: re.search(told, flat(section(shop, "failing"))))
    shop.remove("failing")
    assert "failing, by webhook" not in flat(section(shop, "failing"))
