"""The permitted targets of forms."""

from __future__ import annotations

import pytest

from xscl.web.pages import on_site


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
