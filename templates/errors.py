"""The error of templates."""

from __future__ import annotations


class EvaluationError(Exception):
    """The database of the templates' queries failed, so a batch is joined only in part.

    The batch must be rolled back.  Another evaluation starts with a new database.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(f"the joins of a batch cannot be evaluated: {detail}")
