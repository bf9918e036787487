"""The engine: subscriptions in, documents in, matches out.

    Assembly      what is in memory is made from the store, and changes with it
    Pushing       documents in, matches out
    Subscribing   streams and subscriptions, and the past of those that ask for it
    Reading       what is kept can be read, tried and explained
    Engine        all of it

Each goes on from the one before it.
"""

from __future__ import annotations

from xscl.reading import Reading

__all__ = ["Engine"]


class Engine(Reading):
    """A set of subscriptions over streams of documents.

    With a path everything is kept in that DuckDB file and the next engine
    continues exactly where this one stopped; without one it lives in memory.
    `retention` says how long to keep what no query needs: see `retain`.
    `views` and `workers` have no effect and warn: they were removed.
    `kept_memory` is how many bytes of the state that joins meet are in memory at most: the rest
    is read from the store when it is met.  A quarter of the machine's memory, if not said.
    `result_bound` is how many results an arriving document has with one join at most, the newest
    partners first; it belongs to a store as its queries do, so open it with the same one.
    """
