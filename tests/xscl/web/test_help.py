"""The reference of the languages on the page: its links lead to pages and headings that exist."""

from __future__ import annotations

import pytest

from tests.xscl.web.shown import Shop, parsed
from xscl.language.topics import PAGES, topics


@pytest.mark.parametrize("page", PAGES)
def test_links_of_the_reference_lead_to_its_headings(shop: Shop, page: str) -> None:
    text = parsed(shop.client.get(f"/help/{page}").text)
    for address in text.xpath("//main//a/@href"):
        path, _, anchor = address.partition("#")
        if path.startswith("/help"):
            target = parsed(shop.client.get(path).text)
            assert not anchor or target.xpath("//*[@id=$id]", id=anchor), address


def test_the_contents_list_every_section(shop: Shop) -> None:
    linked = parsed(shop.client.get("/help").text).xpath("//main//nav//a/@href")
    assert len(linked) == len(topics())
    assert shop.client.get("/help/unknown").status_code == 404


def test_an_error_of_a_query_leads_there(shop: Shop) -> None:
    answer = shop.client.post("/subscribe", data={"query": "S//a[", "name": "", "do": "try"})
    assert parsed(answer.text).xpath("//*[@id='checked']//a[@href='/help/xscl']")
