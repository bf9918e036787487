"""The HTTP API in this process, for a command on a data directory that no service runs on.

The routes are those of the service, without a socket, a consumer, polls and deliveries.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import httpx
from fastapi import FastAPI

from feeds.http.connection import RequestSettings
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.engine.disk_guard import DiskGuard
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.credentials import NAME, secrets_in
from xscl.service import problems
from xscl.service.app import App

ADDRESS = "http://127.0.0.1"
"""The base URL of requests to the API in this process; no server listens there."""

_ROUTES: Mapping[str, str] = {
    "/v1/subscriptions/[^/]+/endpoints": "deliveries",
    "/v1/subscriptions/[^/]+/(matches|stories)|/v1/matches": "matches",
    "/v1/subscriptions": "subscriptions",
    "/v1/feeds": "feeds",
    "/v1/streams": "streams",
    "/v1/reading": "reading",
    "/v1/stars": "stars",
    "/v1/tokens|/v1/accounts": "tokens",
    "": "inspection",
}
"""The module of routes for each pattern at the beginning of a path; the first that matches counts.
A command needs one or two modules, and to import all takes 0.4 s."""


class InProcess(httpx.BaseTransport):
    """The transport of requests to the API of an application, with the rights of the operator."""

    def __init__(self, service: App) -> None:
        self._service = service
        self._loop = asyncio.new_event_loop()
        self._routes = cache(self._application)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request, with its whole body in memory."""
        path = request.url.raw_path.decode()
        module = next(name for begin, name in _ROUTES.items() if re.match(begin, path))
        return self._loop.run_until_complete(_answer(self._routes(module), request))

    def close(self) -> None:
        """Close the event loop."""
        self._loop.close()

    def _application(self, module: str) -> httpx.ASGITransport:
        routes = import_module(f"xscl.service.routes.{module}").router.routes
        app = FastAPI(openapi_url=None, redirect_slashes=False, routes=routes)
        app.state.service = self._service
        problems.install(app)
        return httpx.ASGITransport(app, raise_app_exceptions=True)


async def _answer(application: httpx.ASGITransport, request: httpx.Request) -> httpx.Response:
    answer = await application.handle_async_request(request)
    return httpx.Response(
        answer.status_code,
        headers=answer.headers,
        stream=httpx.ByteStream(await answer.aread()),
        request=request,
    )


class _Every(frozenset[str]):
    """The set of all addresses: each message checks its own again when it is sent."""

    def __contains__(self, address: object) -> bool:
        return True


async def _unresolved(*_: Any) -> NoReturn:
    """Raise OSError for every name: a command sends no messages."""
    raise OSError


@contextmanager
def opened(home: DataDirectory, command: str) -> Iterator[App]:
    """Yield the application on a data directory, which is held for a command.

    A trial or a backfill that still runs at the end of the block is stopped.  Raises
    DataDirectoryInUse.
    """
    ways = DeliverySettings(home.files, requests=RequestSettings(_Every(), resolve=_unresolved))

    def outbox(engine: Engine) -> Outbox:
        return Outbox(engine, secrets_in(home.path / NAME), ways)

    with closing(App(home, command, outbox=outbox, disk=DiskGuard(home.path, 0))) as app:
        try:
            yield app
        finally:
            app.begin_shutdown()
