"""Plants faults in a copy of the project and runs the tests that must fail."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.planted_faults.faults import BadFault, Fault
from tests.project import ROOT, project_files

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_OPTIONS = ("-q", "--tb=line", "-rfE", "--hypothesis-profile=planted")
_PASSED, _SOME_FAILED = 0, 1  # exit codes of pytest


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tests of which none failed, and the last lines that pytest printed."""

    passed: tuple[str, ...]
    printed: str


class Copy:
    """A copy of the project in an empty directory; at most one fault is in it at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._times = itertools.count(1)
        self._sound: set[str] = set()
        for path in project_files():
            target = directory / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """Change the fault's module while the block runs; raise BadFault if it does not fit."""
        sound = (self.directory / fault.module).read_text("utf-8")
        self._write(fault.module, fault.planted_in(sound))
        try:
            yield
        finally:
            self._write(fault.module, sound)

    def _write(self, module: str, text: str) -> None:
        """Write a module with a modification time of its own, so that its bytecode is outdated.

        Python compares whole seconds and the size, which a fault may leave unchanged.
        """
        path = self.directory / module
        path.write_text(text, "utf-8")
        later = path.stat().st_mtime + 10 * next(self._times)
        os.utime(path, (later, later))

    def run(self, tests: Sequence[str]) -> Outcome:
        """Run tests; raise BadFault if pytest does not run them."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *_OPTIONS, *tests],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(self.directory), "CI": "true"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (_PASSED, _SOME_FAILED):
            raise BadFault(f"pytest cannot run {' '.join(tests)}:\n{done.stdout}{done.stderr}")
        failed = _FAILED.findall(done.stdout)
        passed = (one for one in tests if not any(_is_of(found, one) for found in failed))
        return Outcome(tuple(passed), done.stdout[-2_000:])

    def expect_sound(self, faults: Iterable[Fault]) -> None:
        """Raise BadFault if a test of some faults fails without them."""
        named = dict.fromkeys(test for fault in faults for test in fault.tests)
        tests = tuple(one for one in named if one not in self._sound)
        if tests:
            outcome = self.run(tests)
            if outcome.passed != tests:
                raise BadFault(f"tests fail without a fault:\n{outcome.printed}")
            self._sound.update(tests)

    def run_with(self, fault: Fault) -> Outcome:
        """Plant a fault and run its tests."""
        with self.planted(fault):
            return self.run(fault.tests)


def _is_of(failed: str, test: str) -> bool:
    """Return True if a failed test is the given one, or one of its parameters."""
    return failed == test or failed.startswith((f"{test}[", f"{test}::"))
