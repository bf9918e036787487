"""Feeds of matches, as feed readers fetch them: read by a parser that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

import feedparser
import httpx
from lxml import etree

from tests.atom_rules import faults
from tests.html_rules import FragmentReader
from tests.json_feed_rules import faults as json_faults
from tests.xscl.service.conftest import Running, eventually, ok, send_batch, serving
from tests.xscl.service.test_events import kept, send, subscribed
from xscl.ingestion.data_directory import DataDirectory

TRICKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title><svg onload=alert(1)>",
    "{{7*7}} ${7*7} ]]> &amp; <b>",
    "javascript:alert(1)",
)


def fetched(client: httpx.Client, path: str, **headers: str) -> httpx.Response:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def says(client: httpx.Client, path: str, text: str) -> bool:
    return text in fetched(client, path).text


def pages(
    client: httpx.Client, path: str, between: Callable[[int], object] = lambda entries: None
) -> list[Any]:
    """Return the entries of all pages of an Atom feed, checked by the rules and by feedparser.

    `between` is called after each page, with the number of entries until then.
    """
    found = []
    following: str | None = path
    while following:
        answer = fetched(client, following)
        assert faults(answer.content) == []
        page = feedparser.parse(answer.content)
        assert not page.bozo
        found += page.entries
        following = next((link.href for link in page.feed.links if link.rel == "next"), None)
        between(len(found))
    return found


def read_html(text: str | None) -> FragmentReader:
    """Return the content of a fragment of HTML."""
    reader = FragmentReader()
    reader.feed(text or "")
    reader.close()
    return reader


def test_w18_pages_have_each_entry_once_while_others_come(operator: httpx.Client) -> None:
    at = subscribed(operator, "fed", "Fed//item->i")
    send(operator, *range(70), stream="Fed")
    eventually(lambda: len(kept(operator, at)) == 70)
    found = pages(operator, f"{at}/feed.atom", lambda n: send(operator, 1_000 + n, stream="Fed"))
    ids = [entry.id for entry in found]
    assert len(ids) == len(set(ids)) == 70
    wanted = [id.replace("-", "") for id in kept(operator, at)[69::-1]]
    assert [id.removeprefix("urn:uuid:").replace("-", "") for id in ids] == wanted
    assert found[0].title == "fed: Item 69"
    eventually(lambda: len(kept(operator, at)) == 72)  # what came between the pages, too
    answer = fetched(operator, f"{at}/feed.json")
    assert answer.headers["content-type"].startswith("application/feed+json")
    first = answer.json()
    second = fetched(operator, first["next_url"]).json()
    assert json_faults(first) == json_faults(second) == []
    assert first["title"] == "fed"
    assert "next_url" not in second
    items = first["items"] + second["items"]
    assert len({item["id"] for item in items}) == 72
    for item in items:
        assert item["content_text"]
        assert item["date_published"].endswith("Z")


def test_ids_of_documents_may_have_any_character(operator: httpx.Client) -> None:
    at = subscribed(operator, "odd", "Odd//item->i")
    ids = ["a\0b", "a\x1bb", "a\n\tb", "a\ufffeb", "a\u2028b", "<a> & 'b'"]
    for id in ids:  # in an address
        ok(operator.post("/v1/documents/Odd", params={"id": id}, content=b"<item/>"))
    eventually(lambda: len(kept(operator, at)) == len(ids))
    assert len(pages(operator, f"{at}/feed.atom")) == len(ids)
    assert json_faults(fetched(operator, f"{at}/feed.json").json()) == []
    assert operator.get("/subscriptions/odd").status_code == 200


def test_w18_a_page_is_asked_for_again_only_when_it_has_changed(operator: httpx.Client) -> None:
    at = subscribed(operator, "fresh", "Fresh//item->i")
    send(operator, 1, stream="Fresh")
    eventually(lambda: len(kept(operator, at)) == 1)
    for number, path in enumerate((f"{at}/feed.atom", f"{at}/feed.json"), 2):
        first = fetched(operator, path)
        tag, changed = first.headers["etag"], first.headers["last-modified"]
        for known in (
            {"If-None-Match": tag},
            {"If-None-Match": f'"x", W/{tag}'},
            {"If-Modified-Since": changed},
        ):
            again = operator.get(path, headers=known)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
        assert fetched(operator, path, **{"If-None-Match": '"x"', "If-Modified-Since": changed})
        send(operator, number, stream="Fresh")
        eventually(partial(says, operator, path, f"Item {number}"))
        assert operator.get(path, headers={"If-None-Match": tag}).status_code == 200
        assert operator.get(path, headers={"If-Modified-Since": changed}).status_code == 200


def test_w18_ids_and_times_outlive_a_restart(place: DataDirectory) -> None:
    found: list[Any] = []
    for number in (5, 3):  # the second item is older than the first
        with serving(place) as running, running.client() as client:
            at = subscribed(client, "q", "S//item->i")
            params = {"id": f"d{number}", "time": f"{number}000000"}
            item = f"<item><title>{number}</title></item>"
            ok(client.post("/v1/documents/S", params=params, content=item))
            eventually(partial(says, client, f"{at}/feed.atom", f"{number}</title>"))
            found.append(feedparser.parse(client.get(f"{at}/feed.atom").content))
    before, after = found
    assert after.feed.id == before.feed.id
    assert after.feed.updated >= before.feed.updated
    assert [entry.id for entry in after.entries[1:]] == [entry.id for entry in before.entries]
    assert after.entries[1].updated == before.entries[0].updated


def test_w9_tricks_are_text(operator: httpx.Client) -> None:
    at = subscribed(operator, "tricks", "Tricks//item->i[./title->t]")
    item = "<item><title>{0}</title><item_url>{0}</item_url></item>"
    texts = {f"t{n}": item.format(escape(trick)) for n, trick in enumerate(TRICKS)}
    send_batch(operator, "Tricks", texts)
    eventually(lambda: len(kept(operator, at)) == len(TRICKS))
    answer = fetched(operator, f"{at}/feed.atom")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert faults(answer.content) == []
    root = etree.fromstring(answer.content)
    names = {etree.QName(element).localname for element in root.iter("{*}*")}
    assert not names & {"script", "img", "svg", "b"}
    titles = [str(element.text) for element in root.iterfind("{*}entry/{*}title")]
    assert titles == [f"tricks: {trick}" for trick in reversed(TRICKS)]
    assert all(element.get("type") is None for element in root.iterfind(".//{*}title"))
    for trick, content in zip(reversed(TRICKS), root.iterfind(".//{*}content"), strict=True):
        said = read_html(content.text)
        assert said.tags <= {"h3", "p", "time", "mark", "strong", "sup", "dl", "dt", "dd", "a"}
        assert " ".join(trick.split()) in "".join(said.texts)
    assert "javascript:" not in str([link.get("href") for link in root.iter("{*}link")])
    page = fetched(operator, f"{at}/feed.json").json()
    assert json_faults(page) == []
    assert [item["title"] for item in page["items"]] == titles
    assert all("external_url" not in item for item in page["items"])


def test_entries_show_both_items_and_lead_to_the_later_one(operator: httpx.Client) -> None:
    """Values that are joined are marked; descriptions keep their markup, but nothing harmful."""
    at = subscribed(
        operator,
        "echoes",
        "SELECT <told t='{t}'><by>{c}</by></told> FROM Ec//item->a[./title->t][./channel_url->c]"
        " FOLLOWED BY{t = u AND c != d, 1 d} Ec//item->b[./title->u][./channel_url->d]",
    )
    for number, host in enumerate(("post", "times")):
        body = (
            f"<item><item_url>https://{host}.example/ferry</item_url>"
            f"<channel_url>https://{host}.example/f.rss</channel_url><title>Ferry</title>"
            "<description>&lt;p&gt;It &lt;em&gt;stops&lt;/em&gt;.&lt;/p&gt;"
            "&lt;img src='/x.png' onerror='x()'&gt;&lt;script&gt;x()&lt;/script&gt;</description>"
            "</item>"
        )
        at_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        moment = at_hour - timedelta(hours=2 - number)
        params = {"id": f"ec{number}", "time": moment.isoformat()}
        ok(operator.post("/v1/documents/Ec", params=params, content=body))
    eventually(lambda: len(kept(operator, at)) == 1)
    (entry,) = pages(operator, f"{at}/feed.atom")
    assert entry.link == "https://times.example/ferry"
    related = [link.href for link in entry.links if link.rel == "related"]
    assert related == ["https://post.example/ferry"]
    assert entry.content[0].value.count("<strong>Ferry</strong><sup>1</sup>") == 2
    root = etree.fromstring(fetched(operator, f"{at}/feed.atom").content)
    html = str(root.findtext("{*}entry/{*}content"))
    said = read_html(html)
    assert html.count("<mark>Ferry</mark>") == 2
    assert html.count("<em>stops</em>") == 2
    assert f"{moment:%Y-%m-%d %H}:00 UTC" in "".join(said.texts)
    assert "<dt>told t</dt><dd>Ferry</dd>" in html
    assert {"https://post.example/ferry", "https://times.example/x.png"} <= set(said.links)
    (item,) = fetched(operator, f"{at}/feed.json").json()["items"]
    assert item["url"] == item["external_url"] == entry.link
    about = fetched(operator, item["_xscl"]["about"], Accept="text/html")
    assert said.links[-1] == item["_xscl"]["about"]
    assert "A match of echoes" in about.text
    assert "times.example/ferry" in about.text
    gone = operator.get(item["_xscl"]["about"].replace("/matches/", "/matches/x"))
    assert gone.status_code == 404


def test_one_feed_has_all_matches_of_a_user(alice: httpx.Client, bob: httpx.Client) -> None:
    for name in ("one", "two", "other"):
        alice.put("/v1/streams/Mine", json={}).raise_for_status()
        subscribed(alice, name, "Mine//item->i" if name != "other" else "Mine//item[./title->i]")
    send(alice, *range(30), stream="Mine")
    eventually(lambda: len(kept(alice, "/v1/subscriptions/other")) == 30)
    listed = alice.get("/v1/matches", params={"limit": 200}).json()["matches"]
    found = pages(alice, "/v1/feed.atom")
    ids = [entry.id.removeprefix("urn:uuid:").replace("-", "") for entry in found]
    assert len(ids) == len(set(ids)) == len(listed) >= 90
    assert set(ids) == {match["id"] for match in listed}
    own = {entry.id for entry in pages(alice, "/v1/subscriptions/one/feed.atom")}
    assert own <= {entry.id for entry in found}
    made = alice.post("/v1/addresses", json={"label": "reader"}).json()
    with httpx.Client(trust_env=False) as anybody:
        assert [entry.id for entry in pages(anybody, made["atom"])] == [e.id for e in found]
        assert [one["id"] for one in alice.get("/v1/addresses").json()] == [made["id"]]
        assert bob.get("/v1/addresses").json() == []
        assert bob.delete(f"/v1/addresses/{made['id']}").status_code == 404
        assert bob.get("/v1/feed.json").json()["items"] == []
        assert alice.delete(f"/v1/addresses/{made['id']}").status_code == 204
        assert anybody.get(made["json_feed"]).status_code == 404


def test_secret_addresses(running: Running, operator: httpx.Client) -> None:
    at = subscribed(operator, "shared", "Shared//item->i")
    send(operator, 1, stream="Shared")
    made = operator.post(f"{at}/addresses", json={"label": "reader"}).json()
    eventually(lambda: len(kept(operator, at)) == 1)
    with httpx.Client(trust_env=False) as anybody:
        assert len(pages(anybody, made["atom"])) == 1
        assert len(anybody.get(made["json_feed"]).json()["items"]) == 1
        secret = made["atom"].rpartition("/")[2].removesuffix(".atom")
        assert secret not in operator.get(f"{at}/addresses").text
        (listed,) = operator.get(f"{at}/addresses").json()
        assert (listed["id"], listed["label"]) == (made["id"], "reader")
        assert not any(secret.encode() in content for content in running.files().values())
        for wrong in (made["atom"].replace("/f/", "/f/x"), f"{running.address}/f/.atom"):
            assert anybody.get(wrong).status_code == 404
        assert operator.delete(f"{at}/addresses/{made['id']}").status_code == 204
        assert operator.delete(f"{at}/addresses/{made['id']}").status_code == 404
        refused = anybody.get(made["atom"])
        assert refused.status_code == 404
        assert secret not in refused.text
        second = operator.post(f"{at}/addresses").json()
        operator.delete(at)
        subscribed(operator, "shared", "Other//item->i")
        assert anybody.get(second["atom"]).status_code == 404
