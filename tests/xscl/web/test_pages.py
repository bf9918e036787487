"""Pages as a program sees them: what they hold, where they lead, what they refuse."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import duckdb
import httpx
import pytest

from tests.waiting import PATIENCE
from tests.xscl.service.conftest import Running, eventually, ok, token_of
from tests.xscl.service.conftest import alice as alice  # fixtures
from tests.xscl.service.conftest import bob as bob
from tests.xscl.service.conftest import operator as operator
from tests.xscl.service.conftest import running as running
from tests.xscl.web.shown import TRICKS, TRICKY, Shop, parsed
from xscl.engine.batch_size import BatchSize
from xscl.engine.twin import Twin
from xscl.language.topics import PAGES as HELP
from xscl.service.dependencies import COOKIE
from xscl.web.facets import counting, narrowed
from xscl.web.gallery import cases
from xscl.web.pages import on_site
from xscl.web.rendering import POLICY, VIEWS
from xscl.web.views import editing

PAGES = (
    *(path for path, _ in VIEWS),
    "/starred",
    "/account",
    "/plan?subscription=rise-then-warning",
    "/plan?node=template+1",
    "/?subscription=tricky",
    "/items?q=tricks&with=t00",
    "/compare?doc=t00&doc=t01",
    "/why?subscription=tricky&doc=t00&doc=t11",
    "/subscribe",
    "/subscribe?example=rising",
    "/subscribe?edit=tricky",
    "/subscriptions/tricky",
    "/document?id=t00",
    "/sign-in",
    "/help",
    *(f"/help/{page}" for page in HELP),
    "/witnesses?example=4",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_allows_its_own_files_and_nothing_else(shop: Shop, path: str) -> None:
    answer = shop.client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = parsed(answer.text)
    assert page.get("lang") == "en"
    assert page.xpath("count(//h1)") == 1
    assert not page.xpath("//style | //script[not(@src)] | //*[@style]")
    assert not page.xpath("//@*[starts-with(name(), 'on')]")
    for address in page.xpath("//script/@src | //link/@href | //img/@src | //form/@action"):
        assert address.startswith("/")
        assert not address.startswith("//")


def test_w9_what_a_document_says_is_html_that_can_do_no_harm(shop: Shop) -> None:
    pages = [shop.page(f"/document?id=t{n}0") for n in range(len(TRICKS))]
    said = [one for page in pages for one in page.xpath("//section[@class='said']")]
    assert sum("description" in one.text_content() for one in said) >= len(TRICKS) - 2
    assert {inner.tag for one in said for inner in one.iter()} == {"section"}


def test_w9_tricks_are_shown_as_text(shop: Shop) -> None:
    page = shop.page("/?subscription=tricky")
    titles = {" ".join(each.text_content().split()) for each in page.xpath("//h3")}
    for trick in TRICKS:
        flat = " ".join(trick.split())
        assert any(flat in title for title in titles)
    inside = page.xpath("//article//*[self::script or self::img or self::svg or self::textarea]")
    assert not inside
    links = page.xpath("//article//a/@href")
    assert links
    ours = "/subscriptions/", "/document?id=", "/why?", "/not-again?"
    assert all(link.startswith(ours) for link in links)


@pytest.mark.parametrize("trick", TRICKS)
def test_w9_what_a_person_writes_is_text(shop: Shop, trick: str) -> None:
    for path, form in (
        ("/subscribe", {"query": trick, "name": trick, "do": "try", "since": trick[:20]}),
        ("/witnesses", {"sql": trick}),
        ("/feeds/add", {"url": trick, "stream": trick, "tags": trick}),
        ("/subscribe/check", {"query": trick}),
        ("/subscribe/count", {"query": trick}),
        ("/sign-in", {"token": trick, "next": trick}),
    ):
        answer = shop.client.post(path, data=form, follow_redirects=True)
        assert answer.headers["content-type"].startswith("text/html")
        page = parsed(answer.text)
        assert not page.xpath("//script[not(@src)] | //img | //h1[contains(., 'caught')]")
        assert not page.xpath("//button[contains(., 'caught')] | //@onfocus | //@onerror")
        assert "49" not in page.text_content() or "{{" not in trick


@pytest.mark.parametrize(
    "path", ["/subscriptions/<script>x</script>", "/document?id=<script>x</script>"]
)
def test_w10_an_error_shows_what_was_asked_as_text(shop: Shop, path: str) -> None:
    answer = shop.client.get(path)
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == POLICY
    page = parsed(answer.text)
    assert not page.xpath("//script[not(@src)]")
    assert "<script>x</script>" in page.text_content()


def test_help_leads_to_each_use_case_and_to_each_view_of_readers(shop: Shop) -> None:
    links = set(shop.page("/help").xpath("//main//li/a/@href"))
    assert {f"/subscribe?example={case.slug}" for case in cases()} <= links
    assert {path for path, _ in VIEWS} - {"/", "/help"} <= links


def test_news_is_what_came_after_a_place(shop: Shop) -> None:
    page = shop.page("/")
    third = page.xpath("//article/@data-place")[2]
    news = shop.client.get("/matches/news", params={"after": third})
    assert news.headers["X-More"] == "no"
    newer = parsed(f"<div>{news.text}</div>").xpath("//article/@data-place")
    assert newer == page.xpath("//article/@data-place")[:2]
    again = shop.client.get("/matches/news", params={"after": news.headers["X-After"]})
    assert "<article" not in again.text
    assert again.headers["X-After"] == news.headers["X-After"]


def test_matches_are_found_by_text_stream_subscription_and_day(shop: Shop) -> None:
    def found(**asked: str) -> list[str]:
        page = shop.page("/", **asked)
        return [each.text_content().strip() for each in page.xpath("//article//h2")]

    assert set(found(text="NIGHT FERRY")) == {"same-story"}
    assert set(found(stream="advisories")) == {"advisory-then-release"}
    assert set(found(subscription="correction", text="bridge")) == {"correction"}
    assert found(day="2001-01-01") == []
    assert found(stream="nowhere") == []
    days = {each[:10] for each in shop.page("/").xpath("//header//time/@datetime")}
    assert all(found(day=day) for day in days)
    assert found(day=min(days), zone="Nowhere/At all") == found(day=min(days))
    assert shop.client.get("/", params={"day": "yesterday"}).status_code == 422


def test_a_day_is_one_of_the_zone_of_the_reader(shop: Shop) -> None:
    shop.subscribe("days", "days//a->x")
    for hour in (1, 23):
        moment = datetime(2001, 5, 10, hour, tzinfo=UTC)
        shop.push("days", b"<a/>", f"d{hour}", int(moment.timestamp()) * 1_000_000)
    eventually(lambda: shop.client.get("/?subscription=days").text.count("<article") == 2)
    for zone, numbers in (
        ("UTC", {"2001-05-10": 2}),
        ("Asia/Tokyo", {"2001-05-10": 1, "2001-05-11": 1}),
        ("America/New_York", {"2001-05-09": 1, "2001-05-10": 1}),
    ):
        for day in ("2001-05-09", "2001-05-10", "2001-05-11"):
            asked = {"subscription": "days", "day": day, "zone": zone}
            found = shop.client.get("/", params=asked).text.count("<article")
            assert found == numbers.get(day, 0), (zone, day)
    shop.remove("days")


@patch("xscl.service.status.STEP", 0.0)
def test_the_figures_of_the_last_hour_and_day_are_drawn(shop: Shop) -> None:

    def captions(path: str) -> list[str]:
        return list(shop.page(path).xpath("//figure/figcaption/text()"))

    eventually(lambda: len(captions("/status")) == 7)
    assert [one.partition(":")[0] for one in captions("/status?span=day")] == [
        *("Documents taken in", "Matches", "Documents waiting", "Latency, p50", "Latency, p95"),
        *("Lag", "Memory"),
    ]
    series = shop.client.get("/v1/status/series", params={"span": "day"}).json()
    assert len(series) >= 2
    assert series[-1]["memory"] > 1_000_000


@patch("xscl.service.status.LONGEST", 0.0)
def test_a_count_of_documents_leads_to_its_rows(shop: Shop) -> None:
    """Late documents are listed although no subscription may have missed them."""
    for name, minute in (("later", 9), ("behind", 1)):
        moment = {"id": name, "timestamp": f"2026-01-01T00:0{minute}:00Z"}
        ok(shop.client.post("/v1/documents/unread", params=moment, content="<a/>"))

    def link() -> str:
        page = shop.page("/status")
        return next(iter(page.xpath("//a[contains(@href, 'FROM+watermarks')]/@href")), "")

    cells = shop.page(eventually(link)).xpath("//td/text()")
    assert "unread" in cells


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ({"history": "true"}, r"^\d+ in the last 30 days, the newest: .+; new ones will follow\.$"),
        ({}, r"^It begins with what arrives from now on\.$"),
    ],
)
def test_a_saved_subscription_says_what_it_begins_with(
    shop: Shop, history: dict[str, str], says: str
) -> None:
    form = {"name": "begun", "query": TRICKY, "do": "save", **history}
    saved = shop.client.post("/subscribe", data=form, follow_redirects=True)
    told = parsed(saved.text).xpath("string(//*[@class='chosen'])")
    assert re.search(says, " ".join(told.split()))
    shop.send("/subscriptions/remove", name="begun", purge="yes")


def test_the_comment_before_a_query_describes_it_in_the_list(shop: Shop) -> None:
    query = "-- What is told\n  -- twice.\n" + TRICKY
    shop.subscribe("described", query)
    (main,) = shop.page("/subscriptions", q="described").find_class("list-main")
    assert (main.findtext("p"), main.findtext("code")) == ("What is told twice.", TRICKY)
    shop.remove("described")


def test_several_subscriptions_are_tagged_at_once_and_found_by_a_tag(shop: Shop) -> None:
    names = ["rising", "silence"]
    form = {"names": names, "tags": "sea, daily", "back": "/subscriptions?q=i"}
    answer = shop.send("/subscriptions/tag-all", **form)
    assert answer.headers["location"] == "/subscriptions?q=i"
    shop.send("/subscriptions/tag-all", **form | {"tags": "daily", "remove": "yes"})
    page = shop.page("/subscriptions")
    (link,) = page.xpath("//nav[@aria-label='Tags of subscriptions']//a")
    assert (link.get("href"), link.text_content()) == ("/subscriptions?tag=sea", "sea 2")
    listed = shop.page(link.get("href")).xpath("//input[@name='names']/@value")
    assert listed == names
    wrong = form | {"tags": "x" * 60}
    assert shop.send("/subscriptions/tag-all", **wrong).status_code == 422
    found = shop.page("/?tag=sea")
    assert set(found.xpath("//article//h2/a/text()")) == set(names)
    assert found.xpath("//select[@name='tag']/option[@selected]/text()") == ["sea"]
    for name in names:
        shop.send("/subscriptions/edit", name=name, new=name, tags="")
    assert not shop.page("/subscriptions").xpath("//a[@class='tag']")


def test_a_subscription_is_edited_in_the_editor(shop: Shop) -> None:
    shop.subscribe("to edit", "S//a->x")
    page = shop.page("/subscribe", edit="to edit")
    assert page.xpath("string(//textarea)").strip() == "S//a->x"
    form = {"edit": "to edit", "name": "edited", "query": "S//b->x", "do": "save"}
    saved = shop.send("/subscribe", **form)
    assert saved.headers["location"] == "/subscriptions/edited?saved=edit"
    shown = shop.client.get(saved.headers["location"])
    assert "Version 2 is on" in parsed(shown.text).xpath("string(//*[@class='chosen'])")
    shown = shop.client.get("/v1/subscriptions/edited").json()
    assert (shown["query"], shown["version"]) == ("S//b->x", 2)
    wrong = shop.send("/subscribe", **form | {"edit": "edited", "query": "S//b->"})
    assert wrong.status_code == 422
    assert parsed(wrong.text).xpath("//input[@name='edit']/@value") == ["edited"]
    shop.remove("edited")


def test_a_subscription_gets_a_name_and_tags_on_its_page(shop: Shop) -> None:
    shop.subscribe("old", "S//a->x")
    for form, name, tags in (
        ({"name": "old", "new": "new one", "tags": "b, a"}, "new one", ["a", "b"]),
        ({"name": "new one", "query": "S//b->x"}, "new one", ["a", "b"]),
        ({"name": "new one", "new": "new one", "tags": ""}, "new one", []),
        ({"name": "new one", "new": "new one", "tags": "c"}, "new one", ["c"]),
    ):
        saved = shop.send("/subscriptions/edit", **form)
        assert saved.headers["location"] == f"/subscriptions/{quote(name)}"
        shown = ok(shop.client.get(f"/v1/subscriptions/{quote(name)}"))
        assert sorted(shown["tags"]) == tags
    assert shown["query"] == "S//b->x"
    for query in ("S//b->", "", " \n"):
        assert shop.send("/subscriptions/edit", name="new one", query=query).status_code == 422
        assert ok(shop.client.get("/v1/subscriptions/new one"))["tags"] == ["c"]
    shop.remove("new one")


def test_the_look_of_pages_is_kept_in_cookies(shop: Shop) -> None:
    for name, value, is_kept in (
        ("theme", "dark", True),
        ("density", "dense", True),
        ("theme", "pink", False),
        ("density", "dark", False),
    ):
        answer = shop.send("/look", **{name: value, "back": "//evil.example"})
        assert answer.headers["location"] == "/"
        kept = answer.headers.get("set-cookie", "")
        assert kept.startswith(f"xscl_{name}={value};") is is_kept
        shop.client.cookies.clear()
        headers = {"Cookie": f"xscl_{name}={value}"}
        shown = parsed(shop.client.get("/", headers=headers).text).get(f"data-{name}")
        assert (shown == value) is is_kept


def test_what_is_wrong_is_told_under_the_caret(shop: Shop) -> None:
    query = "feeds//item->a[./title->t]\n  JOIN{t = w, 1 d} feeds//item->b[./title->u]"
    answer = shop.send("/subscribe", query=query, do="save", name="x")
    assert answer.status_code == 422
    page = parsed(answer.text)
    (told,) = page.xpath("//*[@id='problem']")
    (excerpt,) = told.xpath(".//pre")
    line, caret = excerpt.text.split("\n")
    assert line[caret.index("^")] == "w"
    assert (excerpt.get("data-line"), excerpt.get("data-column")) == ("2", str(line.index("w") + 1))
    assert page.xpath("string(//textarea)").strip() == query


def test_a_subscription_is_drawn_and_removed(shop: Shop) -> None:
    shop.subscribe("for a moment", "S//a->x")
    shown = shop.client.get("/subscriptions/for%20a%20moment")
    assert "<svg" in shown.text
    assert shop.send("/subscriptions/remove", name="for a moment").status_code == 303
    assert shop.client.get("/subscriptions/for%20a%20moment").status_code == 404


@pytest.mark.parametrize("name", ["tricky", ""], ids=["of one", "of all"])
def test_a_secret_address_is_shown_once_and_can_be_revoked(shop: Shop, name: str) -> None:
    made = shop.send("/subscriptions/address", name=name)
    (address,) = re.findall(r"http://\S+/f/[^<]+\.atom", made.text)
    assert shop.client.get(address).text.count("<entry") >= len(TRICKS)
    page = shop.client.get(f"/subscriptions/{name}".rstrip("/")).text
    assert address.rpartition("/")[2].partition(".")[0] not in page
    (id,) = parsed(page).xpath("//input[@name='id']/@value")
    (made_at, of_label) = parsed(page).xpath("//form[contains(., 'Secret address made')]//time")
    assert of_label.xpath("string(..)") == f" the address made {made_at.text}"
    shop.send("/subscriptions/address/revoke", name=name, id=id)
    assert shop.client.get(address).status_code == 404


def test_matches_are_brought_to_a_file_that_is_added_on_the_page(shop: Shop) -> None:
    shop.subscribe("brought", "brought//a->x")
    form = {"name": "brought", "kind": "file", "to": "brought.jsonl"}
    added = shop.send("/subscriptions/endpoint/add", **form)
    assert added.headers["location"] == "/subscriptions/brought#deliveries"
    shop.push("brought", b"<a/>", "brought1", int(time.time() * 1e6))
    eventually(lambda: "Up to date" in _deliveries(shop, "brought").text_content())
    shown = _deliveries(shop, "brought")
    assert "file to brought.jsonl" in shown.text_content()
    (id,) = shown.xpath(".//form[contains(@action, 'change')]/input[@name='id']/@value")
    assert _change(shop, "brought", id, "rotate").status_code == 422
    for deed, state in (("pause", "paused"), ("resume", "active")):
        _change(shop, "brought", id, deed)
        assert _deliveries(shop, "brought").xpath(f".//*[contains(@class, 'state-{state}')]")
    _change(shop, "brought", id, "remove")
    assert "No endpoints yet" in _deliveries(shop, "brought").text_content()


def test_the_secret_of_a_webhook_is_shown_once_and_what_it_refuses_is_listed(
    shop: Shop, deaf: str
) -> None:
    shop.subscribe("hooked", "hooked//a->x")
    form = {"name": "hooked", "kind": "webhook", "to": f"http://{deaf}/hook"}
    made = shop.send("/subscriptions/endpoint/add", **form).text
    (secret,) = re.findall(r"whsec_[\w+/=]+", made)
    assert secret not in _deliveries(shop, "hooked").text_content()
    shop.push("hooked", b"<a/>", "hooked1", int(time.time() * 1e6))
    eventually(lambda: "in a row" in _deliveries(shop, "hooked").text_content())
    (id,) = _deliveries(shop, "hooked").xpath(".//form[@class='actions']/input[@name='id']/@value")
    again = _change(shop, "hooked", id, "rotate").text
    (other,) = re.findall(r"whsec_[\w+/=]+", again)
    assert other != secret
    _change(shop, "hooked", id, "remove")


def _deliveries(shop: Shop, name: str) -> Any:
    return shop.page(f"/subscriptions/{name}").get_element_by_id("deliveries")


def _change(shop: Shop, name: str, id: str, deed: str) -> httpx.Response:
    return shop.send("/subscriptions/endpoint/change", name=name, id=id, do=deed)


def test_examples_run_and_a_link_of_another_site_only_shows_its_query(shop: Shop) -> None:
    path = "/witnesses?example=0"
    assert shop.page(path).xpath("//table")
    foreign = shop.client.get(path, headers={"Sec-Fetch-Site": "cross-site"})
    page = parsed(foreign.text)
    assert page.xpath("string(//textarea)").strip() == "SELECT * FROM relations"
    assert not page.xpath("//table")


def test_statements_are_saved_under_names(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"sql": "SELECT 7 AS seven", "name": "seven"}
    answer = shop.send("/witnesses/save", **form)
    assert answer.headers["location"] == "/witnesses?sql=SELECT+7+AS+seven"
    shop.send("/witnesses/save", sql="SELECT 8")
    (one, other) = shop.client.get("/v1/sql/saved").json()
    assert (one["name"], one["query"], other["query"]) == ("SELECT 8", "SELECT 8", form["sql"])
    monkeypatch.setattr("xscl.service.marks.MOST_STATEMENTS", 2)
    put = {"query": "SELECT 9"}
    assert shop.client.put("/v1/sql/saved/seven", json=put).status_code == 204
    assert shop.client.put("/v1/sql/saved/nine", json=put).status_code == 403
    saved = "//section[@aria-labelledby='saved-title']//a/@href"
    assert shop.page("/witnesses").xpath(saved)[1] == "/witnesses?sql=SELECT+9"
    shop.send("/witnesses/forget", name="seven")
    assert shop.client.delete("/v1/sql/saved/SELECT 8").status_code == 204
    assert shop.client.get("/v1/sql/saved").json() == []


def test_the_rows_of_an_answer_are_paged_and_counted_by_the_values_of_a_column(shop: Shop) -> None:
    text = (
        "SELECT i, CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN 'it''s' ELSE 'b' END"
        ' AS "k""" FROM range(250) r(i) ORDER BY i; '
    )
    page = shop.page("/witnesses", sql=text)
    assert page.xpath("string(//h2[@id='answer-title'])") == "200 rows, and there are more"
    (later,) = page.xpath("//a[@rel='next']/@href")
    rest = shop.page(later)
    assert rest.xpath("string(//h2[@id='answer-title'])") == "Rows 201 to 250"
    assert rest.xpath("string(//tbody/tr[1]/td[1])") == "200"
    assert not rest.xpath("//a[@rel='next']")
    (suggested,) = page.xpath("//a[contains(@href, 'facet=')]/@href")
    (counted,) = shop.page(suggested).xpath("//nav[starts-with(@aria-label, 'Rows')]")
    values = [" ".join(one.text_content().split()) for one in counted.xpath(".//li")]
    assert (values[0], sorted(values)) == ("NULL 84", ["NULL 84", "b 83", "it's 83"])
    for link, rows in zip(counted.xpath(".//a/@href"), (84, 83, 83), strict=True):
        assert shop.page(link).xpath("string(//h2[@id='answer-title'])") == f"{rows} rows"
    wrong = shop.client.get("/witnesses", params={"sql": text, "facet": "nothing"})
    assert wrong.status_code == 422


def test_the_matches_of_a_query_are_counted_without_registering_it(shop: Shop) -> None:
    def count(query: str) -> str:
        answer = shop.send("/subscribe/count", query=query)
        assert answer.status_code == 200
        return " ".join(parsed(answer.text).text_content().split())

    assert count("tricks//item->a").startswith(
        f"{shop.documents('tricks')} matches in the last 30 days, the"
    )
    assert count("tricks//item[./title = 'none']->a") == "No match in the last 30 days"
    assert count("tricks//item->a[") == ""


def test_a_count_ends_when_its_reader_leaves_or_after_a_second(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()
    left = [shop.documents("tricks")]
    replay, close = Twin.replay, Twin.close

    def slowly(twin: Twin, *given: Any, **options: Any) -> list[int]:
        """Replay a document after some time."""
        begun.set()
        time.sleep(0.3)
        left[0] -= 1
        return replay(twin, *given, **options)

    def closing(twin: Twin) -> None:
        """Close a twin; note it if not all documents were wanted."""
        if left[0] > 0:
            ended.set()
        close(twin)

    monkeypatch.setattr(Twin, "replay", slowly)
    monkeypatch.setattr(Twin, "close", closing)
    monkeypatch.setattr(BatchSize, "documents", 1)
    form = {"query": "tricks//item->a"}
    monkeypatch.setattr(editing, "COUNTING", PATIENCE)
    while not begun.is_set():
        with pytest.raises(httpx.ReadTimeout):
            shop.client.post("/subscribe/count", data=form, timeout=1)
    assert ended.wait(PATIENCE)
    monkeypatch.setattr(editing, "COUNTING", 0.1)
    assert "takes longer" in shop.send("/subscribe/count", **form).text


def test_a_page_that_does_not_exist_is_told_as_a_page(shop: Shop) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml"}
    missing = shop.client.get("/nothing<here", headers=browser)
    assert missing.status_code == 404
    assert missing.headers["content-security-policy"] == POLICY
    assert "/nothing<here" in parsed(missing.text).text_content()
    for path, headers in (("/nothing", {}), ("/v1/nothing", browser)):
        answer = shop.client.get(path, headers=headers)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
    assert "html" in shop.client.delete("/status", headers=browser).headers["content-type"]
    refused = shop.client.delete("/status")
    assert refused.status_code == 405
    assert refused.headers["content-type"] == "application/problem+json"


# -- Signing in ------------------------------------------------------------------------------


def test_w12_signing_in_goes_back_to_this_site_only(
    running: Running, operator: httpx.Client
) -> None:
    token = token_of(operator, "alice")
    with running.client() as client:
        for wanted, goes in (("/gallery", "/gallery"), ("//evil.example", "/")):
            answer = client.post("/sign-in", data={"token": token, "next": wanted})
            assert (answer.status_code, answer.headers["location"]) == (303, goes)
            assert f'value="{goes}"' in client.get("/sign-in", params={"next": wanted}).text


def test_a_session_is_a_cookie_of_this_site_and_ends(
    running: Running, operator: httpx.Client
) -> None:
    token = token_of(operator, "alice")
    with running.client() as client:
        answer = client.post("/sign-in", data={"token": token})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        session = client.cookies[COOKIE]
        assert session != token
        top = parsed(client.get("/").text).xpath("//header")[0].text_content()
        assert "Sign out alice" in " ".join(top.split())
        assert client.get("/plan").status_code == 403
        ended = client.post("/sign-out")
        assert "You are signed out" in client.get(ended.headers["location"]).text
    with running.client() as client:
        late = client.get("/items?q=a", headers={"Cookie": f"{COOKIE}={session}"})
        leads = (late.status_code, late.headers["location"])
        assert leads == (303, "/sign-in?next=%2Fitems%3Fq%3Da")


def test_w8_nobody_sees_what_is_anothers(alice: httpx.Client, bob: httpx.Client) -> None:
    marker = "aLiceSecret"
    for stream in ("left", "right"):
        path = f"/v1/documents/{stream}?id={marker}{stream}"
        ok(alice.post(path, content=f"<doc><k>{marker}</k></doc>"))
    query = "left//doc[./k->x] JOIN{x = y, 1 d} right//doc[./k->y]"
    for name in (marker, "both"):
        alice.put(f"/v1/subscriptions/{name}", json={"query": query, "since": "7 d"})
    eventually(lambda: marker in alice.get("/").text)
    assert marker in alice.get("/subscriptions").text
    assert marker in alice.get(f"/document?id={marker}left").text
    for path in (*PAGES, f"/subscriptions/{marker}", f"/document?id={marker}left"):
        text = bob.get(path).text.replace(path.rpartition("=")[2], "")
        assert marker not in text.replace(path.rpartition("/")[2], "")
    assert marker not in bob.post("/subscribe", data={"query": query, "do": "try"}).text
    hers = [f"{marker}left", f"{marker}right"]
    for path, parameters in (
        ("/compare", {"doc": hers}),
        ("/compare/query", {"doc": hers, "pair": "doc/k = doc/k"}),
        ("/why", {"subscription": "both", "doc": hers}),
        ("/items", {"with": hers[0]}),
        ("/items", {"stream": "left"}),
    ):
        refused = bob.get(path, params=parameters)
        assert refused.status_code in (404, 422), path
        assert "Write the query" not in refused.text
    assert marker not in parsed(bob.get("/items", params={"q": "lice"}).text).text_content()


STATEMENTS = (
    "SELECT 1 AS k",
    "SELECT 1 AS k ;\n;",
    "SELECT 1 AS k -- it's; /* ",
    "-- first; a comment\nSELECT 1 /* ; /* in */ */ AS k /* ; */",
    "SELECT 1 AS k, '; -- no comment' AS t",
    "SELECT 1 AS k, 'it''s; /*' AS \"a;--\"\"b\";",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_narrowed_and_counted(statement: str) -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(statement).fetchall()
        assert connection.execute(narrowed(statement, "k", "1")).fetchall() == rows
        assert connection.execute(narrowed(statement, "k", "2")).fetchall() == []
        assert connection.execute(counting(statement, "k")).fetchall() == [("1", 1)]
        again = narrowed(narrowed(statement, "k", "1"), "k", None)
        assert connection.execute(again).fetchall() == []


ELSEWHERE = (
    *("//evil.example", "/\\evil.example", "/\t/evil.example", "/\n/evil.example"),
    *("\\\\evil.example", "https://evil.example", "javascript:alert(1)", "evil.example"),
    *("", "/ /evil.example", "/\x7f/evil.example"),
)
HERE = ("/", "/subscriptions/a?b=c#d", "/feeds//x", "/caf%C3%A9")


@pytest.mark.parametrize("path", [*ELSEWHERE, *HERE])
def test_w12_a_path_that_leads_elsewhere_is_the_front_page(path: str) -> None:
    assert on_site(path) == (path if path in HERE else "/")
