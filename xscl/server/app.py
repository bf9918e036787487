"""The web application: the service's routes, middleware and error handlers."""

from __future__ import annotations

import time

from fastapi import FastAPI

from xscl.service import description, problems
from xscl.service.app import App
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
        routes=[route for one in (*ROUTERS, *PUBLIC, pages) for route in one.routes],
    )
    app.state.service = service
    problems.install(app, error_page)
    description.describe(app)
    app.add_middleware(Guard, service=service)
    app.add_middleware(Counting, metrics=service.figures.metrics, clock=time.monotonic)
    return app
