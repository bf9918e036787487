"""`double-top`: Figure 4.17 of Hong 2009, one query in two formulations.

A double top (M shape) is five consecutive extrema of a stock: a minimum A, a
maximum B >= 1.2 A, a minimum C within 10 % of A, a maximum D within 10 % of B,
and a minimum E below A.  Figure 4.17 compares μ, a FOLD for each monotone run,
with resubscription: a stream of local extrema, and NEXTs over it.

The paper's two formulations are not equal as printed.  These changes make them equal:

*   Equal prices.  A step from one quote of a name to its next is a rise if the
    price is not lower, else a fall.  So each step has one direction, extrema
    alternate, and runs are exactly what lies between them.
*   A is a local minimum.  A rise that begins anywhere in a run would give a
    match for each of its quotes, and a fall into A one for each of its starts.
    The first FOLD therefore takes one falling step only.  Nothing has to be
    dropped afterwards: both sides are equal as multisets.
*   E is a local minimum, too: known when the next quote does not fall, which a
    NEXT confirms.  Both sides detect a match at that quote; its time is compared.
*   B, C and D need no change: a FOLD emits every prefix of a run, but the
    FOLD after it ends at once unless the run has turned there.
*   An extremum is detected one quote late and spans three quotes, so that
    neighbours overlap and NEXT would pass over them.  An aggregate AT INSTANT
    over a name's extrema (there is one at most) makes it a point in time.

Prices are a seeded random walk in place of the paper's closing prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.event_workloads import Result, Side, Workload, quotes, raced
from benchmarks.harness import Options, ResultsDiffer, Row, Value, module_profile, values
from cep_core import Match

NAME = "double-top"
SEED = 1998
QUICK_QUOTES, QUOTES = 10_000, 112_635
SMOOTHING = (1, 2, 5, 10, 20)
PARTS = 5

STREAMS: Mapping[str, Mapping[str, type]] = {"Stock": {"Name": str, "Price": float}}
SAME = "$2.Name = $1.Name"
RISES, FALLS = "$2.Price >= $.Price", "$2.Price < $.Price"
B_HIGH = "Price >= 1.2 * A"
C_NEAR = "Price >= 0.9 * A AND Price <= 1.1 * A"
D_NEAR = "Price >= 0.9 * B AND Price <= 1.1 * B"


def mu() -> list[tuple[str, str]]:
    """Return the formulation with five FOLDs."""
    one_fall = (
        f"(SELECT *, 0 AS Steps FROM Stock)"
        f" FOLD{{{SAME}, {FALLS} AND $.Steps = 0, $.Steps + 1 AS Steps}} Stock"
    )
    pattern = f"(SELECT Name, Price AS A, Price FROM {one_fall})"
    found = "A"
    for point, run, condition in (
        ("B", RISES, B_HIGH),
        ("C", FALLS, C_NEAR),
        ("D", RISES, D_NEAR),
        ("E", FALLS, "Price < A"),
    ):
        kept = ", ".join(found)
        folded = f"FILTER{{{condition}}}({pattern} FOLD{{{SAME}, {run}, }} Stock)"
        pattern = f"(SELECT Name, {kept}, Price AS {point}, Price FROM {folded})"
        found += point
    kept = ", ".join(f"{point}_1 AS {point}" for point in found)
    confirmed = f"FILTER{{Price >= E_1}}({pattern} NEXT{{{SAME}}} Stock)"
    return [("double top", f"SELECT Name, {kept} FROM {confirmed}")]


def resubscription() -> list[tuple[str, str]]:
    """Return the formulation over a published stream of extrema.

    The stream is published inside a query without output, so that no time goes into
    the delivery of extrema without a subscriber.
    """
    extrema = f"SELECT * FROM FILTER{{Top > 1}}(({_extrema()} PUBLISH Extrema))"
    return [("extrema", extrema), ("double top", _over("Extrema"))]


def _over(extrema: str) -> str:
    """Return the pattern over a stream of extrema."""
    pattern = f"(SELECT Name, Price AS A FROM FILTER{{Top = 0}}({extrema}))"
    found = "A"
    for point, condition in (
        ("B", "Price >= 1.2 * A_1"),
        ("C", "Price >= 0.9 * A_1 AND Price <= 1.1 * A_1"),
        ("D", "Price >= 0.9 * B_1 AND Price <= 1.1 * B_1"),
        ("E", "Price < A_1"),
    ):
        kept = ", ".join(f"{point}_1 AS {point}" for point in found)
        pair = f"FILTER{{{condition}}}({pattern} NEXT{{{SAME}}} {extrema})"
        pattern = f"(SELECT Name, {kept}, Price AS {point} FROM {pair})"
        found += point
    return pattern[1:-1]


def _extrema() -> str:
    turns = f"({_turns('<', '>=', 0)}) UNION ({_turns('>=', '<', 1)})"
    return (
        f"SELECT Name, MAX(Price) AS Price, MAX(Top) AS Top FROM ({turns}) GROUP BY Name AT INSTANT"
    )


def _turns(into: str, out_of: str, top: int) -> str:
    """Return the quotes with a step into and a step out of them, as Name, Price, Top."""
    stepped = f"FILTER{{Price {into} Price_1}}(Stock NEXT{{{SAME}}} Stock)"
    turned = f"FILTER{{Price {out_of} Price_1}}({stepped} NEXT{{{SAME}}} Stock)"
    return f"SELECT Name, Price_1 AS Price, {top} AS Top FROM {turned}"


FORMULATIONS = {"mu": mu, "resubscription": resubscription}


def run(options: Options) -> Iterator[Row]:
    """Yield both formulations for each length of the running average."""
    count = QUICK_QUOTES if options.quick else QUOTES
    for window in SMOOTHING:
        yield from compared(window, count)
    if options.profile:
        yield from _profiles(count)


def compared(window: int, count: int) -> Iterator[Row]:
    """Yield the rows of both formulations, which have equal matches."""
    events = quotes(count, window, SEED)
    sides = {
        name: Side(Workload(STREAMS, queries(), events)) for name, queries in FORMULATIONS.items()
    }
    for side in sides.values():
        side.load()
    spent, matches = raced(sides, count, PARTS, f"smoothed over {window}", _said)
    if not matches:
        raise ResultsDiffer(f"smoothed over {window}: there is no double top in the stream")
    for name, side in sides.items():
        parameters = values(figure="4.17", variant=name, smoothing=window, subscriptions=1)
        figures: dict[str, Value] = {
            "events_per_s": 1 / spent[name],
            "ratio": spent["resubscription"] / spent[name],
            "matches": matches,
            "events": count,
            "operators": side.engine.stats()["operators"],
        }
        yield Row(NAME, parameters, figures)


def _profiles(count: int) -> Iterator[Row]:
    for name, queries in FORMULATIONS.items():
        side = Side(Workload(STREAMS, queries(), quotes(count, 1, SEED)))
        side.load()
        yield module_profile(NAME, {"variant": name}, side.push, count)


def _said(match: Match) -> Result:
    """Return the end of a double top and (Name, A, B, C, D, E); the starts differ."""
    return (match.event.t1, *match.event.values)
