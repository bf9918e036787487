"""The web application: the service's routes, middleware and error handlers."""

from __future__ import annotations

import time

from fastapi import APIRouter, Depends, FastAPI

from xscl.service import description, problems
from xscl.service.app import App
from xscl.service.dependencies import declared_parameters_only
from xscl.service.guard import Guard
from xscl.service.metrics import Counting
from xscl.service.routes import (
    deliveries,
    documents,
    events,
    feeds,
    inspection,
    matches,
    reading,
    sql,
    stars,
    state,
    streams,
    subscriptions,
    syndication,
    tokens,
    websub,
)
from xscl.web.pages import error_page
from xscl.web.router import router as pages

ROUTERS = (
    subscriptions.router,
    documents.router,
    matches.router,
    reading.router,
    stars.router,
    events.router,
    deliveries.router,
    syndication.router,
    syndication.all_router,
    feeds.router,
    streams.router,
    inspection.router,
    sql.router,
    state.router,
    tokens.router,
)

PUBLIC = (
    description.router,
    syndication.secret_router,
    websub.router,
    deliveries.mail_router,
)
"""Routes that need no token: /docs, and those whose addresses are secrets."""

_ALL = APIRouter()
"""All routes, shared by all applications of a process.  If each application included the routers,
FastAPI would read all signatures again at its first request, for as long as a service takes to
start."""

for _router in ROUTERS:
    _ALL.include_router(_router, prefix="/v1", dependencies=[Depends(declared_parameters_only)])
for _router in (*PUBLIC, pages):
    _ALL.include_router(_router)


def create_app(service: App) -> FastAPI:
    """Return the web application of a service."""
    app = FastAPI(
        title="xscl",
        version="1",
        summary="Subscriptions that join XML documents and feed items across time.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        routes=_ALL.routes,
    )
    app.state.service = service
    problems.install(app, error_page)
    description.describe(app)
    app.add_middleware(Guard, service=service)
    app.add_middleware(Counting, metrics=service.figures.metrics, clock=time.monotonic)
    return app
