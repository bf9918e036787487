"""A backup of the running service, for the operator: `POST /v1/backup`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from xscl.service.bodies import raw_response
from xscl.service.dependencies import Here, TheOperator

router = APIRouter(tags=["state"])

MEDIA_TYPE = "application/x-tar"
_PIECE = 1 << 18


@router.post(
    "/backup",
    summary="Back up everything that is kept",
    response_class=Response,
    responses=raw_response(MEDIA_TYPE, "What `xscl restore` puts back."),
)
def backup(here: Here, _: TheOperator) -> Response:
    """Answers with the store between two batches and what waits in the spool, without secrets.

    Everything else goes on meanwhile.  One is made at a time.
    """
    file, size = here.backups.make()
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": 'attachment; filename="backup.xscl"',
    }
    return StreamingResponse(_pieces(file), headers=headers, media_type=MEDIA_TYPE)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
