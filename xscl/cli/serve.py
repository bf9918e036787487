"""`xscl serve` and `xscl demo`: the whole pipeline, until it is stopped."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from feeds.http.connection import CONTACT
from xscl.cli.extras import require
from xscl.cli.match_printer import MatchPrinter
from xscl.cli.options import (
    DATA,
    AllowAddress,
    Contact,
    Data,
    HistoryAge,
    Json,
    KeepMatches,
    NotifyHistory,
    Timezone,
    TrustedProxy,
    Verbose,
    home,
    option,
    setting,
)
from xscl.cli.output import UsageError, answer, warn
from xscl.delivery.channels.mail import mail_server
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed import is_url
from xscl.polling.feed_poller import PollSettings
from xscl.server.demo import demonstrate, serving_samples
from xscl.server.serve import ServeSettings, Service
from xscl.server.termination import exit_now, stopped_by_signals
from xscl.service.app import ServiceSettings
from xscl.service.client_address import is_loopback, network_of
from xscl.service.connection_limit import CONNECTIONS
from xscl.service.figures import lines
from xscl.service.logs import LogFormat, logging_to

Master = Annotated[str | None, setting("master")]
NoSpark = Annotated[bool, setting("no-spark")]


@dataclass(frozen=True, slots=True)
class Listening:
    """The options of the HTTP server."""

    host: Annotated[str, setting("host")] = "127.0.0.1"
    port: Annotated[int, setting("port", min=0, max=65535)] = 8425
    name: Annotated[list[str] | None, setting("name")] = None
    trusted_proxy: TrustedProxy = None
    connections: Annotated[int, setting("connections", min=1, max=2_000)] = CONNECTIONS
    public_url: Annotated[str, setting("public-url")] = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which the service may be called, that of its public address included."""
        public = urlsplit(self.public_url).hostname or ""
        named = (*(self.name or ()), *(() if is_loopback(public) else (public,)))
        return tuple(dict.fromkeys(one.lower() for one in named if one))

    def settings(self) -> ServiceSettings:
        """Return the settings of the HTTP server."""
        return ServiceSettings(
            host=self.host,
            port=self.port,
            names=self.names,
            trusted_proxies=tuple(map(network_of, self.trusted_proxy or ())),
            connections=self.connections,
        )


def serve(
    listening: Listening,
    data: Data = DATA,
    once: bool = option("Poll due feeds, consume the spool, deliver, and end; no HTTP API."),
    demo: bool = option("With samples and live subscriptions, in a new directory; no Spark."),
    no_spark: NoSpark = False,
    master: Master = None,
    notify_history: NotifyHistory = False,
    allow_address: AllowAddress = None,
    contact: Contact = CONTACT,
    history: HistoryAge = None,
    keep_matches: KeepMatches = None,
    smtp: Annotated[str | None, setting("smtp")] = None,
    log_format: Annotated[LogFormat | None, setting("log-format")] = None,
    verbose: Verbose = False,
    as_json: Json = False,
    timezone: Timezone = "local",
) -> None:
    """Poll feeds, join what comes, answer over HTTP, print matches; until Ctrl-C or SIGTERM.

    A request of this machine may do everything without a token. Requests need
    one if the service listens elsewhere (the first is made and shown), if it has a
    --name, or if they come through a proxy.

    What no subscription needs any more is kept for a while, counted from its
    arrival: texts for 'try', 'why' and 'subscribe --since' (at most 2 GiB, the
    oldest go first), and matches. 'xscl status' shows what is kept.
    A document is recognised when it comes again within a year, or as long as
    something refers to it.

    \b
    Example:
      xscl serve --data xscl-data --history 7d
      xscl serve --master 'local[2]'
      xscl serve --data xscl-data --once
      xscl serve --demo
    """
    if not once:
        require("service", "'xscl serve'")
    if listening.public_url and not is_url(listening.public_url):
        raise UsageError(
            f"--public-url {listening.public_url!r} is no address",
            hint="it begins with https:// or http://",
        )
    fetching = PollSettings(tuple(allow_address or ()), contact=contact)
    serving = ServeSettings(
        master=None if demo or no_spark else _spark_on(master),
        fetching=fetching,
        history=history,
        keep_matches=keep_matches,
        mail=None if smtp is None else mail_server(smtp),
        listen=None if once else listening.settings(),
        public_url=listening.public_url,
    )
    printer = MatchPrinter(as_json=as_json, history=notify_history, verbose=verbose)
    log = nullcontext() if log_format is None else logging_to(sys.stderr, log_format)
    if not demo:
        with log:
            _run(home(data), serving, printer, once=once)
        return
    if once:
        raise UsageError("--demo has nothing to end with", hint="'xscl demo --once' has")
    with (
        log,
        _demo_directory(None if data == DATA else data) as place,
        serving_samples(place, serving) as (sampled, publisher),
    ):
        _run(place, sampled, printer, on_consuming=publisher.begun.set)


def _run(
    place: DataDirectory,
    serving: ServeSettings,
    printer: MatchPrinter,
    *,
    once: bool = False,
    on_consuming: Callable[[], None] = lambda: None,
) -> None:
    """Run the service until it is stopped, or with `once` until it is idle."""

    def consuming(seconds: float) -> None:
        on_consuming()
        if serving.master is not None and service.executors_away is None:
            warn(f"Spark has started in {seconds:.0f} s")

    starting = "; Spark is starting, documents wait in the spool until then"
    how = "without" if serving.master is None else "with"

    def listening(address: str) -> None:
        warn(f"serving from {place.path} ({how} Spark); Ctrl-C stops")
        warn(
            f"the page is at {address}/, the API at {address}/v1, described at /docs"
            + ("" if serving.master is None else starting)
        )

    service = Service(
        *(place, serving, printer),
        on_skipped=printer.skipped,
        on_first_token=lambda token: warn(
            f"requests need a token, and none existed: the operator's is {token}",
            hint="keep it, it is not shown again; 'xscl token create' makes others",
        ),
        on_listening=listening,
        on_consuming=consuming,
    )

    with stopped_by_signals(service.stop, overdue=exit_now):
        if once:
            service.run_once()
            return
        service.run()
    warn("stopped")


@contextmanager
def _demo_directory(data: Path | None) -> Iterator[DataDirectory]:
    """Yield the given data directory, or a temporary one."""
    # Java may still be writing its log.
    with tempfile.TemporaryDirectory(prefix="xscl-demo-", ignore_cleanup_errors=True) as temporary:
        yield home(data or Path(temporary) / "data")


_MASTER = re.compile(
    r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]|yarn"
    r"|spark://[^:/]+:\d+(,[^:/]+:\d+)*|k8s://.+"
)
"""The forms of a Spark master; with any other text a service would try to connect forever."""


def _spark_on(master: str | None) -> str | None:
    """Return the master of Spark, None for None.

    Raises UsageError if the text is no master, MissingExtra if Spark is not installed.
    """
    if master is None:
        return None
    if _MASTER.fullmatch(master) is None:
        raise UsageError(
            f"--master {master!r} is no master of Spark",
            hint="such as local[2], spark://host:7077, yarn or k8s://https://host:443",
        )
    require("spark", "--master")
    return master


def demo(
    once: bool = option("End after the last match."),
    data: Path | None = option("Keep the data here.", "DIR"),
    master: Master = None,
    no_spark: NoSpark = False,
    verbose: Verbose = False,
    as_json: Json = False,
    timezone: Timezone = "local",
) -> None:
    """Show everything at work on three small feeds with five subscriptions.

    \b
    Example:
      xscl demo --once
    """
    if not once:
        require("service", "'xscl demo' without --once")
    spark = None if no_spark else _spark_on(master)
    with _demo_directory(data) as place:
        printer = MatchPrinter(as_json=as_json, history=False, verbose=verbose)
        found = demonstrate(place, printer, master=spark, once=once, tell=warn)
    answer({"status": found}, ["", *lines(found)], as_json=as_json)
