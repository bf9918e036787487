"""Modules of ours that execute a function while a call runs.

A module counts once, however many of its functions run.  The modules of `TABLES` count as one, for
each has the statements on its table.  Functions that run while a module is being imported do not
count: neither module bodies nor what these call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from tests.project import ROOT
from tests.structure.docstrings import PACKAGES

STEPS = {
    "accept": ("xscl.engine.ingest", "xscl.documents"),
    "shred": ("xscl.planning.dataflow", "xscl.shredding"),
    "join": ("xscl.planning", "templates"),
    "advance_time": ("xscl.planning.dataflow", "cep_core"),
    "commit": ("xscl.engine", "xscl.store"),
}
"""The steps of a push: the modules that call the package of the step, and that package."""

TABLES = "xscl.store.queries"
SUBSCRIPTION = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"
PAIR = "SELECT a.x, b.x AS y FROM S a ; S b"
OTHER_SHAPE = "S//a->x[./b->u] FOLLOWED BY{x=y AND u=v, 10} S//a->y[./b->v]"


def entries(calls: Calls) -> dict[str, list[str]]:
    """Return for each step of a push the modules through which its package is entered."""
    return {
        step: sorted(
            {
                called
                for caller, called in calls.pairs
                if caller is not None and caller.startswith(callers)
                if f"{called}.".startswith(f"{package}.")
            }
        )
        for step, (callers, package) in STEPS.items()
    }


class Calls(NamedTuple):
    """The functions of ours that ran, and pairs of modules (caller, called) by their first call.

    The caller is that of the next frame of ours; None: there is none.
    """

    functions: set[CodeType]
    pairs: list[tuple[str | None, str]]

    @property
    def modules(self) -> list[str]:
        """The modules in which a function ran, by first entry."""
        return list(dict.fromkeys(called for _, called in self.pairs))


def calls_of(call: Callable[[], object]) -> Calls:
    """Return the functions of our packages that run during a call."""
    pairs: dict[tuple[str | None, str], None] = {}
    functions: set[CodeType] = set()
    importing = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal importing
        is_body = frame.f_code.co_name == "<module>"
        if event == "call":
            importing += is_body
            called = None if importing else _module(frame.f_code.co_filename)
            if called is not None:
                caller, above = None, frame.f_back
                while above is not None and (caller := _module(above.f_code.co_filename)) is None:
                    above = above.f_back
                functions.add(frame.f_code)
                pairs[caller, called] = None
        elif event == "return":
            importing -= is_body

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Calls(functions, list(pairs))


@functools.cache
def _module(file: str) -> str | None:
    """Return the dotted name of a file of our packages, None for any other file."""
    path = Path(file)
    if not path.is_relative_to(ROOT):
        return None
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] not in PACKAGES:
        return None
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return TABLES if name.startswith(TABLES) else name


def traced() -> dict[str, Calls]:
    """Return the functions that run in the calls that a newcomer follows first.

    A third push, which completes a match; reading the match; a query of a new shape, the second
    one of the engine; and the first query of an engine, `A ; B` in EQL.
    """
    import cep_core
    import xscl

    found: dict[str, Calls] = {}
    pushed: list[xscl.PushResult] = []
    with xscl.Engine() as engine:
        engine.subscribe("twice", SUBSCRIPTION)
        for ts in range(1, 4):
            document = xscl.Document("S", f"d{ts}", ts, f"<a>{ts // 2}</a>".encode())
            found["push"] = calls_of(lambda: pushed.append(engine.push(document)))  # noqa: B023
        assert [len(one) for one in pushed] == [0, 0, 1], "the third push completes a match"
        (match,) = engine.matches()
        found["read"] = calls_of(lambda: (match.documents, match.bindings["x"], match.xml()))
        found["new shape"] = calls_of(lambda: engine.subscribe("other", OTHER_SHAPE))
    core = cep_core.Engine()
    core.stream("S", {"x": int})
    found["EQL"] = calls_of(lambda: core.register("pair", PAIR, "eql"))
    return found


def report(title: str, calls: Calls) -> str:
    """Return the modules by package, the packages in the order of their first call."""
    packages: dict[str, list[str]] = {}
    for module in calls.modules:
        package, _, name = module.rpartition(".")
        packages.setdefault(package or module, []).append(name if package else "__init__")
    lines = (f"  {package}: {', '.join(names)}" for package, names in packages.items())
    count = f"{title}: {len(calls.modules)} modules, {len(calls.functions)} functions"
    return "\n".join([count, *lines])
