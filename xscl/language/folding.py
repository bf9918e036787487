"""FOLD: what the names in its predicates and aggregates refer to (Cayuga's μ).

An instance has the first row (the left input's variables, `$1.x`), the last
row (those of the right input's row that it took last, `$.x`), and aggregates
(`$.n`); `$2.x` is the new right row.  Before the first one the last row is the
left row: `$.x` is its variable of that name, and an aggregate that no left
variable is called begins with 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xscl.language.faults import fault, near_miss
from xscl.language.scope import JoinScope, leaves, rewritten
from xscl.language.syntax import (
    Decorated,
    Fold,
    Operand,
    Path,
    Predicate,
    VariablePath,
)


@dataclass(frozen=True, slots=True)
class Folding:
    """The definition of a FOLD; all names are decorated.

    `Decorated(1, x)` is the first row's x, `(2, x)` the new row's, `(0, x)` the
    last row's, or the aggregate x.  `begins` names, for a variable of the last
    row or an aggregate, the variable of the first row that it begins with.
    """

    predicate: Predicate | None
    again: Predicate | None
    aggregates: tuple[tuple[str, Operand], ...]
    begins: tuple[tuple[str, str], ...]
    mentioned: tuple[str, ...]


def folding(fold: Fold, scope: JoinScope) -> Folding:
    """Return the meaning of a FOLD; raises QueryError for an unknown name."""
    names = _Names(scope, tuple(name for name, _ in fold.aggregates))
    for name in names.aggregates:
        if name in scope.right or names.aggregates.count(name) > 1:
            raise fault(scope.source, fold.span, f"the name {name!r} is used twice", "use two")
    predicate, again, aggregates = rewritten(
        (fold.predicate, fold.again, fold.aggregates), names.decorated
    )
    used = [leaf for leaf in leaves((predicate, again, aggregates)) if isinstance(leaf, Decorated)]
    read = {leaf.name for leaf in used if leaf.input == 0} | set(names.aggregates)
    begins = {name: first for name in read if (first := names.first(name)) is not None}
    for leaf in used:
        if leaf.input == 0 and leaf.name in scope.right and leaf.name not in begins:
            message = f"'$.{leaf.name}' has no value in the first row"
            hint = f"bind {leaf.name} on the left side, too"
            raise fault(scope.source, leaf.span, message, hint)
    named = [leaf.name for leaf in used if leaf.name not in names.aggregates]
    mentioned = (*named, *sorted(begins.values()))
    return Folding(predicate, again, aggregates, tuple(sorted(begins.items())), mentioned)


@dataclass(frozen=True, slots=True)
class _Names:
    scope: JoinScope
    aggregates: tuple[str, ...]

    def first(self, name: str) -> str | None:
        """Return the first row's variable of a name, if it has one."""
        found = (candidate for candidate in (f"{name}_1", name) if candidate in self.scope.left)
        return next(found, None)

    def decorated(self, leaf: Operand) -> Operand:
        """Return a name with its decorator."""
        self.scope.refuse_several(leaf)
        match leaf:
            case VariablePath(name, path):
                if path != Path():
                    raise self.scope.unsupported_path(leaf.span)
                if name in self.aggregates:
                    return Decorated(0, name, leaf.span)
                return Decorated(self.scope.side(name, leaf.span), name, leaf.span)
            case Decorated(0, name):
                if name not in self.aggregates and name not in self.scope.right:
                    known = (*self.aggregates, *self.scope.right)
                    hint = near_miss(name, known)
                    message = f"'$.{name}' is neither an aggregate nor a variable on the right"
                    raise fault(self.scope.source, leaf.span, message, hint)
                return leaf
            case Decorated(side, name):
                return replace(leaf, name=self.scope.own_name(side, name, leaf.span))
            case _:
                return leaf
