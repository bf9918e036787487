"""The evaluators of stage 2: small batches in memory, others in the database; Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from templates import processor
from tests.algorithm_1 import ProcessorOfBase


@contextmanager
def in_database(everything: bool = True) -> Iterator[None]:
    """Evaluate small batches in the database, too."""
    with pytest.MonkeyPatch.context() as patch:
        if everything:
            patch.setattr(processor, "SMALL_BATCH", -1)
        yield


@contextmanager
def by_algorithm_1(chosen: bool = True) -> Iterator[None]:
    """Evaluate engines that are opened in the block by Algorithm 1, without views (section 6.4)."""
    with pytest.MonkeyPatch.context() as patch:
        if chosen:
            patch.setattr("xscl.engine.state.Processor", ProcessorOfBase)
        yield
