"""A client of server-sent events, as a browser reads them."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.waiting import PATIENCE


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its name, its id, its data."""

    name: str
    id: str
    data: Any


@dataclass
class Listener:
    """The received events, in order."""

    events: queue.Queue[Event] = field(default_factory=queue.Queue)
    ended: threading.Event = field(default_factory=threading.Event)

    def next(self) -> Event:
        return self.events.get(timeout=PATIENCE)

    def take(self, count: int) -> list[Event]:
        return [self.next() for _ in range(count)]

    def read(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        try:
            for line in answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    data = json.loads(fields["data"])
                    self.events.put(Event(fields["event"], fields.get("id", ""), data))
                    fields = {}
        except httpx.HTTPError:
            pass  # the test has hung up
        finally:
            self.ended.set()


@contextmanager
def listening(client: httpx.Client, path: str, last: str | None = None) -> Iterator[Listener]:
    """Listen while the block runs."""
    headers = {} if last is None else {"Last-Event-ID": last}
    listener = Listener()
    with client.stream("GET", path, headers=headers, timeout=PATIENCE) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        thread = threading.Thread(target=listener.read, args=(answer,), daemon=True)
        thread.start()
        yield listener
        # the reader waits in a read that nothing else ends
        stream = answer.extensions["network_stream"].get_extra_info("socket")
        stream.shutdown(2)
        thread.join(PATIENCE)
