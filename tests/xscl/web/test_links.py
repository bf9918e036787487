"""The permitted targets of forms."""

from __future__ import annotations

import pytest

from xscl.web.pages import on_site

ELSEWHERE = (
    *("//evil.example", "/\\evil.example", "/\t/evil.example", "/\n/evil.example"),
    *("\\\\evil.example", "https://evil.example", "javascript:alert(1)", "evil.example"),
    *("", "/ /evil.example", "/\x7f/evil.example"),
)
HERE = ("/", "/subscriptions/a?b=c#d", "/feeds//x", "/caf%C3%A9")


@pytest.mark.parametrize("path", [*ELSEWHERE, *HERE])
def test_w12_a_path_that_leads_elsewhere_is_the_front_page(path: str) -> None:
    assert on_site(path) == (path if path in HERE else "/")
