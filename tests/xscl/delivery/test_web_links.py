"""The permitted targets of links."""

from __future__ import annotations

import pytest

from xscl.delivery.web_links import link


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
