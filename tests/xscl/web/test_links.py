"""The permitted targets of links and forms."""

from __future__ import annotations

import pytest

from xscl.web.links import link, on_site


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
        "/ /evil.example",
        "/\x7f/evil.example",
    ],
)
def test_w12_a_path_that_leads_elsewhere_is_the_front_page(path: str) -> None:
    assert on_site(path) == "/"


@pytest.mark.parametrize("path", ["/", "/subscriptions/a?b=c#d", "/feeds//x", "/caf%C3%A9"])
def test_w12_a_path_of_this_site_stays(path: str) -> None:
    assert on_site(path) == path


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "/relative",
        "//host/x",
        "http://",
        "https://[broken",
        "ftp://host/x",
    ],
)
def test_w9_an_address_that_is_not_by_http_is_no_link(address: str) -> None:
    assert link(address) is None


def test_an_address_by_http_is_a_link() -> None:
    assert link(" https://example.org/a?b=c ") == "https://example.org/a?b=c"
