"""Requests that the OpenAPI document allows, and some that it does not: no answer is a 5xx.

Of every eighteenth operation one that fits and one that does not, by a user who is not the
operator; of each, many more, and by the operator as well, in the slow tests.
"""

from __future__ import annotations

import itertools
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from tests.examples import usually
from tests.xscl.service.conftest import ok

if TYPE_CHECKING:
    import schemathesis

PATIENCE = 60.0
ENDLESS = "/events"
"""How the addresses end whose answers do not."""


@pytest.mark.parametrize("user", usually(["bob", "operator"], "bob"))
@pytest.mark.parametrize(
    ("step", "examples"), usually([(18, 1), (4, 1), (1, 1), (1, 50)], (18, 1), several=True)
)
def test_no_request_breaks_the_service(
    step: int, examples: int, user: str, operator: httpx.Client, bob: httpx.Client
) -> None:
    # Not at the top: it takes a second, in each process that collects the tests.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        import schemathesis

    schemathesis.serializer.alias("application/x-ndjson", "text/plain")
    client = bob if user == "bob" else operator
    schema = schemathesis.openapi.from_dict(ok(operator.get("/v1/openapi.json")))
    asked: dict[str, int] = {}
    for result in itertools.islice(schema.get_all_operations(), 0, None, step):
        operation = result.ok()  # type: ignore[union-attr]  # it says so itself if it is not
        if operation.path.endswith(ENDLESS):
            continue
        for mode in schemathesis.GenerationMode:
            with suppress(Unsatisfiable, SkipTest):  # nothing about it can be wrong
                _try(operation.as_strategy(generation_mode=mode), client, asked, examples)
    assert len(asked) > 20 / step
    assert client.get("/v1/health").status_code == 200


def _try(
    cases: st.SearchStrategy[schemathesis.Case[Any]],
    user: httpx.Client,
    asked: dict[str, int],
    examples: int,
) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def send(case: schemathesis.Case[Any]) -> None:
        headers = {k: v for k, v in user.headers.items() if k == "authorization"}
        answer = case.call(base_url=str(user.base_url), headers=headers, timeout=PATIENCE)
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        asked[f"{case.method} {case.path}"] = answer.status_code

    send()
