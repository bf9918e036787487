"""Stars of matches, and the density of lists."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.xscl.commandline import called
from tests.xscl.service.conftest import ok
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


def test_a_star_stays_with_its_user_follows_a_name_and_leaves_with_a_purge(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = shop.client.put("/v1/subscriptions/fleeting", json={"query": TRICKY, "history": True})
    assert put.status_code == 201
    found = articles(shop.client, "/?subscription=fleeting")
    monkeypatch.setattr(marks, "MOST_STARS", 2)
    assert [star(shop.client, one).status_code for one in found[:3]] == [303, 303, 403]
    shop.client.patch("/v1/subscriptions/fleeting", json={"name": "fleeting-2"})
    names = {one.xpath("string(.//h2)") for one in articles(shop.client, "/starred")}
    assert names == {"fleeting-2"}
    stranger = shop.client.post("/v1/tokens", json={"user": "stranger"}).json()["token"]
    headers = {"Authorization": f"Bearer {stranger}"}
    with httpx.Client(base_url=shop.address, headers=headers, trust_env=False) as other:
        assert articles(other, "/starred") == []
        assert star(other, found[2]).status_code == 404
    shop.client.post("/subscriptions/remove", data={"name": "fleeting-2"})
    (one, _) = articles(shop.client, "/starred")
    assert not one.xpath(".//h2/a")
    shop.client.delete("/v1/subscriptions/fleeting-2", params={"purge": True})
    assert articles(shop.client, "/starred") == []


def test_matches_are_starred_over_http_and_listed_page_by_page(shop: Shop) -> None:
    listed = ok(shop.client.get("/v1/subscriptions/tricky/matches", params={"limit": 2}))["matches"]
    for one in listed:
        put = shop.client.put(f"/v1/stars/{one['id']}", json={"position": one["position"]})
        assert put.status_code == 204
    first = ok(shop.client.get("/v1/stars", params={"limit": 1}))
    assert first["next"] is not None
    rest = ok(shop.client.get("/v1/stars", params={"limit": 1, "after": first["next"]}))
    stars = first["items"] + rest["items"]
    assert [one["match"] for one in stars] == [one["id"] for one in reversed(listed)]
    assert (stars[1]["timestamp"], stars[1]["position"]) == (
        *(listed[0]["timestamp"], listed[0]["position"]),
    )
    assert [one["id"] for one in stars[1]["documents"]] == listed[0]["documents"]
    wrong = shop.client.put(f"/v1/stars/{listed[0]['id']}", json={"position": 1 << 40})
    assert wrong.status_code == 404
    done = called("stars", "--url", shop.address)
    assert done.stdout.startswith("tricky  ")
    for one in listed:
        assert shop.client.delete(f"/v1/stars/{one['id']}").status_code == 204
    assert ok(shop.client.get("/v1/stars"))["items"] == []
    assert called("stars", "--url", shop.address).stdout == ""


# -- Stars, density and the operator's page in a browser -----------------------------------


STAR = "article.match form.star button"


pytestmark = pytest.mark.usefixtures("calm")


@pytest.mark.slow
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
