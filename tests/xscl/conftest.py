"""Common parts of the service's tests: users' SQL has more time than elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from xscl.service.sql import sql_service
from xscl.service.sql.limits import Limits

PATIENT = 15.0
"""Seconds that a user's question may take beside other tests; for users it is two."""


@pytest.fixture(scope="session", autouse=True)
def patient_questions() -> Iterator[None]:
    """Extend the deadline of users' SQL for a busy machine; tests of deadlines opt out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_service, "Limits", partial(Limits, seconds=PATIENT))
        yield
