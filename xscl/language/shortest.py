"""Conditions in their shortest form, and parts of them that are equal as one object.

`./a[./b = 'x']` is `./a/b = 'x'`, and takes a third of the memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from xscl.language.syntax import (
    And,
    Block,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Residual,
    Step,
    TextMatch,
)


def shortest(block: Block) -> Block:
    """Return a block whose conditions are in their shortest form."""
    steps = (
        replace(step, conditions=tuple(map(simplified, step.conditions)))
        if step.conditions
        else step
        for step in block.steps
    )
    return replace(block, steps=tuple(steps))


def simplified(condition: Condition) -> Condition:
    """Return a condition without nesting where a longer path says the same."""
    match condition:
        case Exists(Path((Step(conditions=(only,)) as step,), None)):
            bare = replace(step, conditions=())
            match simplified(only):
                case Compare(path, operator, value, None):
                    return Compare(below((bare,), path), operator, value)
                case Exists(path):
                    return Exists(below((bare,), path))
                case inner:
                    return Exists(Path((replace(step, conditions=(inner,)),)))
        case Exists(path) | Compare(path) | TextMatch(_, path):
            return replace(condition, path=shared(path))
        case Residual():
            return condition
        case And(parts):
            return And(tuple(map(simplified, parts)))
        case Or(parts):
            return Or(tuple(map(simplified, parts)))
        case Not(part):
            return Not(simplified(part))
        case _:
            assert_never(condition)


@lru_cache(maxsize=4096)
def shared(path: Path) -> Path:
    """Return a path, equal ones as one object."""
    return path


def below(steps: tuple[Step, ...], path: Path) -> Path:
    """Return the path that goes on with another one."""
    return shared(Path((*steps, *path.steps), path.text))
