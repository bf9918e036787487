"""The benchmarks by name: the module of each, what it measures, and the pictures of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.harness import Benchmark, Panel

STATE = ("kept_rows", "value", "document", "text", "result", "instances")
"""The counts of what an engine keeps."""


def _mmqjp(across: Mapping[str, str]) -> list[Panel]:
    """Return the panels of figures of section 6.6.1, by number and what varies in them."""
    times = ("milliseconds", "baseline_milliseconds")
    return [
        Panel(f"Figure {one}", axis, figures=times, where={"figure": one, "growth_over": None})
        for one, axis in across.items()
    ]


def _rates(figure: str, title: str, across: str, *by: str) -> Panel:
    """Return the panel of a figure of rates."""
    return Panel(f"Figure {figure}: {title}", across, by, ("events_per_s",), {"figure": figure})


def _next() -> Iterator[Panel]:
    for figure, across, up, kinds in (
        ("9", "size", "operators", ("next", "union", "mix")),
        ("10", "queries", "events_per_s", ("next", "union", "mix")),
        ("11", "nodes", "queries", ("next", "union")),
    ):
        for kind in kinds:
            where = {"figure": figure, "workload": kind}
            yield Panel(f"Figure {figure}: {kind}", across, figures=(up,), where=where)


BENCHMARKS: Mapping[str, Benchmark] = {
    "mmqjp-flat": Benchmark(
        "mmqjp_flat",
        "two flat documents: shared templates against Sequential",
        _mmqjp({"6.8": "queries", "6.9": "leaves", "6.10": "zipf"}),
    ),
    "mmqjp-complex": Benchmark(
        "mmqjp_complex",
        "two documents of three levels: shared templates against Sequential",
        _mmqjp({"6.11": "queries", "6.12": "joins", "6.13": "zipf"}),
    ),
    "views": Benchmark(
        "views",
        "with and without views, and the join state in memory",
        [
            *(Panel(f"Figure {one}", "queries", where={"figure": one}) for one in ("6.14", "6.15")),
            Panel("stream", "subscriptions", ("variant", "batch")),
        ],
    ),
    "rss": Benchmark(
        "rss",
        "feed items from 418 channels, 10 ... 1,000,000 subscriptions",
        [
            Panel(
                f"Figure 6.16: {scope}",
                "subscriptions",
                ("variant", "window"),
                ("items_per_s",),
                {"scope": scope, "growth_over": None},
            )
            for scope in ("end_to_end", "stage1", "stage2")
        ],
    ),
    "stage1": Benchmark(
        "stage1",
        "1 ... 100,000 blocks on feed items and auctions, against XPath one by one",
        [Panel("time for a document", "blocks", ("mix",))],
    ),
    "pipeline": Benchmark(
        "pipeline",
        "from the spool to matches, with Spark and without",
        [Panel("from the spool to matches", "batch", ("consumer",), ("p50_ms", "items_per_s"))],
    ),
    "spark": Benchmark(
        "spark",
        "joins on Spark's executors beside one engine",
        [
            Panel(
                "beside one engine",
                "subscriptions",
                ("mode", "workload", "buckets"),
                ("cpu_ratio",),
            )
        ],
    ),
    "cayuga": Benchmark(
        "cayuga",
        "five templates of three steps, 100,000 ... 400,000 subscriptions",
        [
            _rates("4.13a", "templates", "subscriptions", "template"),
            _rates("4.13b", "Filter", "zipf_1", "template"),
            _rates("4.13c", "Filter", "selectivity", "template"),
            _rates("4.14", "modes on Filter", "subscriptions", "mode"),
        ],
    ),
    "double-top": Benchmark(
        "double_top",
        "one pattern by five FOLDs, or by extrema and NEXTs",
        [_rates("4.17", "double top", "smoothing", "variant")],
    ),
    "feed-patterns": Benchmark(
        "feed_patterns",
        "four templates over feed items, 10,000 ... 40,000",
        [Panel("Figure 4.18: feed items", "subscriptions", ("template",), ("events_per_s",))],
    ),
    "rumor": Benchmark(
        "rumor",
        "event patterns and hybrid queries, rules and channels on and off",
        [
            _rates("5.8a", "workload 1", "subscriptions", "mode"),
            _rates("5.9a", "workload 2", "subscriptions", "mode"),
            _rates("5.9b", "workload 2, μ", "subscriptions", "mode"),
            _rates("5.9d", "workload 3", "capacity", "template", "domain", "mode"),
            _rates("5.10a", "hybrid", "subscriptions", "mode"),
            _rates("5.10b", "hybrid", "selectivity", "mode"),
        ],
    ),
    "sase": Benchmark(
        "sase",
        "sequences by stacks: construction, length, domain, memory (Figures 8-12)",
        [
            Panel(title, across, by, ("events_per_s",), {"experiment": experiment, "scope": scope})
            for title, across, by, experiment, scope in (
                ("construction by domain", "V1", ("variant", "window"), "construction", "scan"),
                ("construction by window", "window", ("variant", "V1"), "construction", "scan"),
                ("length", "length", ("variant",), "length", None),
            )
        ],
    ),
    "service": Benchmark(
        "service_cost",
        "what a service and its commands cost, at work and at rest",
        [Panel("processor time", "of", (), ("cpu_s",))],
    ),
    "capacity": Benchmark(
        "capacity",
        "documents a second and core, and bytes, by path",
        [Panel("documents a second and core", "of", (), ("documents_per_s",))],
    ),
    "next": Benchmark(
        "next_cep", "rewriting of patterns, and their placement on nodes", list(_next())
    ),
    "noisy-neighbour": Benchmark(
        "noisy_neighbour",
        "one user's residual condition beside other subscriptions",
        [Panel("a residual beside others", "subscriptions", ("residual",), ("ratio",))],
    ),
    "patterns": Benchmark(
        "patterns",
        "patterns that differ in constants: one, many, and one for all",
        [
            Panel(
                "queries that differ in constants",
                "queries",
                ("pattern", "constants", "side"),
                ("us_per_event",),
            )
        ],
    ),
    "register": Benchmark(
        "register",
        "one more, one less and a restart with 0 ... 100,000 subscriptions present",
        [
            Panel(
                "one more, one less, a restart",
                "subscriptions",
                ("variant", "mode"),
                ("p50_ms", "milliseconds"),
            )
        ],
    ),
    "backfill": Benchmark(
        "backfill",
        "pushes while the history of a subscription is read",
        [Panel("pushes beside a backfill", "kept", ("kind",), ("ratio",))],
    ),
    "memory": Benchmark(
        "memory",
        "bytes for each subscription, document, row and instance; state over a day",
        [Panel("what is kept", "hour", (), STATE)],
    ),
    "text-joins": Benchmark(
        "text_joins",
        "joins by contains and by similarity through indexes",
        [Panel("joins by texts", "batch", ("query",), ("items_per_s",))],
    ),
    "window-joins": Benchmark(
        "window_joins",
        "window-only joins: stage 2 and the event core",
        [Panel("window 1 d, lengths", "batch", ("evaluator", "items"), ("ms_per_item",))],
    ),
    "peers": Benchmark(
        "peers",
        "joins beside DuckDB, SQLite and a dict; reading feeds",
        [
            Panel(
                "joins",
                "subscriptions",
                ("variant", "input", "batch"),
                ("items_per_s",),
                {"work": "joins"},
            )
        ],
    ),
    "polling": Benchmark(
        "polling",
        "polls of many feeds into the spool",
        [Panel("polls of all feeds", "feeds", figures=("items_per_s",))],
    ),
}
