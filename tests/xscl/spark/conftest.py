"""Without the extra xscl[spark] the tests that need it are left out."""

from __future__ import annotations

from importlib.util import find_spec

_NEED_SPARK = (
    *("document_rows", "executors", "feed_items", "jobs", "matching", "offers", "outages"),
    *("service", "service_surfaces", "session", "streaming"),
)
is_installed = bool(find_spec("pyspark") and find_spec("pandas"))
collect_ignore = [] if is_installed else [f"test_{name}.py" for name in _NEED_SPARK]
