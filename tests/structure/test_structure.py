"""The bounds on the structure: modules that a call passes through, lines, public names."""

from __future__ import annotations

import xscl
from tests.structure.lines import Lines, lines_of
from tests.structure.modules import first_push, first_subscribe, report


def test_every_public_name_can_be_loaded() -> None:
    assert {name for name in xscl.__all__ if not hasattr(xscl, name)} == set()


def test_an_engine_has_few_public_names() -> None:
    with xscl.Engine() as engine:
        names = [name for name in dir(engine) if not name.startswith("_")]
    assert len(names) <= 28, names


def test_a_first_push_passes_through_few_modules() -> None:
    modules = first_push()
    assert len(modules) <= 66, report("first push", modules)


def test_a_first_subscribe_passes_through_few_modules() -> None:
    modules = first_subscribe()
    assert len(modules) <= 50, report("first subscribe", modules)


def test_lines_are_counted_by_kind() -> None:
    docstring = '"""Doc.\n\nMore."""\n\n# note\nx = 1  # code\n\n'
    function = 'def f():\n    """One."""\n    return """a\nb"""\n'
    assert lines_of(docstring + function) == Lines(code=4, docstrings=4, comments=1)
