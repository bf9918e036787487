"""All views of the page in one router."""

from __future__ import annotations

from fastapi import APIRouter

from xscl.web.views import (
    account,
    deliveries,
    editing,
    excluding,
    following,
    gallery,
    help,
    items,
    matches,
    operator,
    plan,
    signin,
    sql,
    stars,
    state,
    subscriptions,
)

router = APIRouter()
for view in (
    stars,
    matches,
    items,
    editing,
    excluding,
    subscriptions,
    deliveries,
    following,
    sql,
    plan,
    state,
    account,
    operator,
    gallery,
    help,
    signin,
):
    router.include_router(view.router)
