"""Planted faults: `faults.txt` has them by module, with the change and the tests that must fail.

    @ a module, for all faults up to the next one
    = the name of a fault
    - the text that stands in the module exactly once, on lines of their own
    + the text in its place; without such a line there is none
    ? a test below `tests/` that must fail with it; `:: NAME` names it below its file

A text that is a part of one line needs no indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class BadFault(Exception):
    """A fault that cannot be planted, or whose tests cannot be run."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of one module, and the tests that must fail with it.

    `module` is a path from the root of the project.  `old` stands in it exactly once.
    """

    name: str
    module: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted_in(self, text: str) -> str:
        """Return a module's text with the fault; raise BadFault if `old` is not in it once."""
        if (times := text.count(self.old)) != 1:
            raise BadFault(f"{self.module} has {self.old!r} {times} times, and not once")
        return text.replace(self.old, self.new)


def read(table: str) -> Iterator[Fault]:
    """Yield the faults of a table."""
    for section in re.split(r"^@ ", table, flags=re.MULTILINE)[1:]:
        module, *faults = re.split(r"\n= ", section.rstrip("\n"))
        for fault in faults:
            name, *lines = fault.replace("\n:: ", "::").split("\n")
            parts = {mark: [one[2:] for one in lines if one[:1] == mark] for mark in "-+?"}
            tests = tuple(f"tests/{one}" for one in parts["?"])
            yield Fault(name, module, "\n".join(parts["-"]), "\n".join(parts["+"]), tests)


FAULTS = tuple(read(Path(__file__).with_name("faults.txt").read_text("utf-8")))
