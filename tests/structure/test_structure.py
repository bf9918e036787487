"""The bounds on the structure: modules that a call passes through, public names."""

from __future__ import annotations

import re
import subprocess
import sys

import xscl
from tests.project import PACKAGES, ROOT
from tests.structure import modules
from tests.structure.docstrings import Names

MOST = {"push": (31, 246), "read": (11, 79), "new shape": (28, 317), "EQL": (37, 378)}
"""Bounds of the modules and functions that calls enter; 0.2: 44/377, 26/217, 38/455, 42/356."""
LONGEST = 700
"""Lines of a module."""
AMBIGUOUS = 19
"""Bound of the names of classes that several modules define; 0.2: 183."""


def test_every_public_name_can_be_loaded() -> None:
    assert {name for name in xscl.__all__ if not hasattr(xscl, name)} == set()


SOURCES = {
    str(path.relative_to(ROOT)): path.read_text()
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}


def test_no_module_is_long() -> None:
    """A longer one is no one idea any more: it had several in all cases so far."""
    lines = {path: len(text.splitlines()) for path, text in SOURCES.items()}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


def test_patterns_repeat_no_group_possessively() -> None:
    """Python before 3.11.5 matches some of them wrongly (gh-106052), as it did pages of feeds."""
    found = {path for path, text in SOURCES.items() if re.search(r"\)[*+?]\+(?!,)", text)}
    assert found == set()


def test_an_engine_has_few_public_names() -> None:
    with xscl.Engine() as engine:
        names = [name for name in dir(engine) if not name.startswith("_")]
    assert len(names) <= 36, names


def test_first_calls_pass_through_few_modules() -> None:
    """In a new process: what others have parsed and compiled there would change the path."""
    command = [sys.executable, "-m", "tests.structure", "modules"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^([\w ]+): (\d+) modules, (\d+) functions$", printed, re.MULTILINE)
    assert {call for call, _, _ in found} == MOST.keys()
    for call, entered, functions in found:
        assert int(entered) <= MOST[call][0], printed
        assert int(functions) <= MOST[call][1], printed


def test_few_names_of_classes_mean_several_things(names: Names) -> None:
    assert len(names.ambiguous()) <= AMBIGUOUS, names.ambiguous()


def test_each_step_of_a_push_enters_its_package_through_few_modules() -> None:
    entered = modules.entries(modules.traced()["push"])
    assert entered.pop("advance_time") == ["cep_core.dataflow.clock"]
    assert entered == {
        "accept": ["xscl.documents.document_log"],
        "shred": ["xscl.shredding.arrivals"],
        "join": ["templates.processor"],
        "commit": ["xscl.store.store"],
    }
