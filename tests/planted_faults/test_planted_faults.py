"""Every planted fault fits the code as it is, and is caught by the tests that it names."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.examples import usually
from tests.planted_faults.faults import FAULTS
from tests.planted_faults.trial import Copy
from tests.project import PACKAGES, ROOT

NAMES = {one.name: one for one in FAULTS}
USUAL = ("entity declarations are taken",)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("project"))


def test_there_are_faults_in_all_packages() -> None:
    assert len(NAMES) == len(FAULTS) >= 40
    assert {one.module.partition("/")[0] for one in FAULTS} == set(PACKAGES)


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_fits_its_module_and_names_tests(name: str) -> None:
    fault = NAMES[name]
    ast.parse(fault.planted_in((ROOT / fault.module).read_text("utf-8")))
    for test in fault.tests:
        path, _, function = test.partition("::")
        assert function in functions(path)


@cache
def functions(path: str) -> set[str]:
    """Return the names of the functions of a module of tests."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", usually(NAMES, *USUAL))
def test_a_planted_fault_is_caught(copy: Copy, name: str) -> None:
    fault = NAMES[name]
    copy.expect_sound([fault])
    outcome = copy.run_with(fault)
    assert not outcome.passed, outcome.printed
