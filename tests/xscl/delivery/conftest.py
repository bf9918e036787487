"""A mail server for the tests of deliveries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.xscl.delivery.post_office import Post, post_office


@pytest.fixture
def post() -> Iterator[Post]:
    with post_office() as found:
        yield found
