"""Modules of ours that execute a function while a call runs.

A module counts once, however many of its functions run.  The modules of `TABLES` count as one, for
each has the statements on its table.  Functions that run while a module is being imported do not
count: neither module bodies nor what these call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

from tests.structure.lines import PACKAGES, ROOT

STEPS = {
    "accept": ("xscl.engine.ingest", "xscl.documents"),
    "shred": ("xscl.planning.operators.scan", "xscl.shredding"),
    "join": ("xscl.planning", "templates"),
    "advance_time": ("xscl.planning.dataflow", "cep_core"),
    "commit": ("xscl.engine", "xscl.store"),
}
"""The steps of a push: the modules that call the package of the step, and that package."""

TABLES = "xscl.store.queries"
SUBSCRIPTION = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"


def modules_run_by(call: Callable[[], object]) -> list[str]:
    """Return the modules of our packages in which a function runs during a call, by first entry."""
    return list(dict.fromkeys(called for _, called in calls_of(call)))


def entries(calls: Iterable[tuple[str | None, str]]) -> dict[str, list[str]]:
    """Return for each step of a push the modules through which its package is entered."""
    found = list(calls)
    return {
        step: sorted(
            {
                called
                for caller, called in found
                if caller is not None and caller.startswith(callers)
                if f"{called}.".startswith(f"{package}.")
            }
        )
        for step, (callers, package) in STEPS.items()
    }


def calls_of(call: Callable[[], object]) -> list[tuple[str | None, str]]:
    """Return pairs of modules of our packages, caller and called, by their first call.

    A caller is the next frame of a module of ours; None: there is none.
    """
    files: dict[tuple[str | None, str], None] = {}
    importing = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal importing
        is_body = frame.f_code.co_name == "<module>"
        if event == "call":
            importing += is_body
            if not importing and _module(frame.f_code.co_filename) is not None:
                caller = frame.f_back
                while caller is not None and _module(caller.f_code.co_filename) is None:
                    caller = caller.f_back
                name = None if caller is None else caller.f_code.co_filename
                files[name, frame.f_code.co_filename] = None
        elif event == "return":
            importing -= is_body

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [
        (None if caller is None else _module(caller), name)
        for caller, called in files
        if (name := _module(called)) is not None
    ]


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


def first_subscribe() -> list[str]:
    """Return the modules that run in the first `subscribe` of a new engine."""
    import xscl

    with xscl.Engine() as engine:
        return modules_run_by(lambda: engine.subscribe("twice", SUBSCRIPTION))


def first_push() -> list[tuple[str | None, str]]:
    """Return the calls between modules in a push of one document with one match.

    One document was pushed before, which is its partner.
    """
    import xscl

    with xscl.Engine() as engine:
        engine.subscribe("twice", SUBSCRIPTION)
        earlier, document = (xscl.Document("S", f"d{t}", t, b"<a>hi</a>") for t in (1, 2))
        engine.push(earlier)
        found: list[xscl.PushResult] = []
        calls = calls_of(lambda: found.append(engine.push(document)))
        assert len(found[0]) == 1, "the push has one match"
        return calls


def report(title: str, modules: Iterable[str]) -> str:
    """Return the modules by package, the packages in the order of their first call."""
    packages: dict[str, list[str]] = {}
    total = 0
    for module in modules:
        package, _, name = module.rpartition(".")
        packages.setdefault(package or module, []).append(name if package else "__init__")
        total += 1
    lines = (f"  {package}: {', '.join(names)}" for package, names in packages.items())
    return "\n".join([f"{title}: {total} modules", *lines])
