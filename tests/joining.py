"""Where stage 2 joins: small batches in memory, others in the database, on demand all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from templates import processor


@contextmanager
def in_database(everything: bool = True) -> Iterator[None]:
    """Have the database join small batches too, which would be joined in memory."""
    with pytest.MonkeyPatch.context() as patch:
        if everything:
            patch.setattr(processor, "FEW_ROWS", -1)
        yield
