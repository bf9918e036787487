"""Modules of ours that execute a function while a call runs.

A module counts once, however many of its functions run.  Functions that run while a module is
being imported do not count: neither module bodies nor what these call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

from tests.structure.lines import PACKAGES, ROOT

SUBSCRIPTION = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"


def modules_run_by(call: Callable[[], object]) -> list[str]:
    """Return the modules of our packages in which a function runs during a call, by first entry."""
    files: dict[str, None] = {}
    importing = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal importing
        is_body = frame.f_code.co_name == "<module>"
        if event == "call":
            importing += is_body
            if not importing:
                files[frame.f_code.co_filename] = None
        elif event == "return":
            importing -= is_body

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [name for file in files if (name := _module(file)) is not None]


def _module(file: str) -> str | None:
    """Return the dotted name of a file of our packages, None for any other file."""
    path = Path(file)
    if not path.is_relative_to(ROOT):
        return None
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] not in PACKAGES:
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def first_subscribe() -> list[str]:
    """Return the modules that run in the first `subscribe` of a new engine."""
    import xscl

    with xscl.Engine() as engine:
        return modules_run_by(lambda: engine.subscribe("twice", SUBSCRIPTION))


def first_push() -> list[str]:
    """Return the modules that run in a push of one document with one match.

    One document was pushed before, which is its partner.
    """
    import xscl

    with xscl.Engine() as engine:
        engine.subscribe("twice", SUBSCRIPTION)
        earlier, document = (xscl.Document("S", f"d{t}", t, b"<a>hi</a>") for t in (1, 2))
        engine.push(earlier)
        found: list[xscl.PushResult] = []
        modules = modules_run_by(lambda: found.append(engine.push(document)))
        assert len(found[0]) == 1, "the push has one match"
        return modules


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
