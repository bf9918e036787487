"""How the service is doing: `GET /v1/health`."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

router = APIRouter(tags=["state"])


class Health(BaseModel):
    """That the service answers."""

    status: str = "ok"


@router.get("/health", summary="Say whether the service answers")
async def health() -> Health:
    """Answers at once and asks for no token."""
    return Health()
