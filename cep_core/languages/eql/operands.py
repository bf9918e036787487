r"""The pattern behind FROM: components as those of SASE, with `;` between them, `\` and `@`.

The name of an event stands before its quantifier.  `p \ z` says that z is absent between the events
of the last part of p and what comes before them.  `p @ t` is a group that is lowered by itself: to
the pattern around it, it is one event, a moment (`scopes`).  A part behind `\` that is no single
event is such a group, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import ClassVar

from cep_core import algebra
from cep_core.algebra.expressions import Arithmetic, Expression
from cep_core.algebra.operands import with_operands
from cep_core.algebra.pattern_tree import Absent, Chain, Choice, Loop, One, PatternTree, trees_in
from cep_core.errors import AlgebraError
from cep_core.events import Schema
from cep_core.languages.reader import parameter
from cep_core.languages.sase.components import ComponentReader, ReadPattern
from cep_core.languages.sase.scope import PatternVariable
from cep_core.languages.tokens import LanguageToken

_NOTHING_YET = algebra.stream("", Schema((), ()))  # the node of a group before it is lowered


@dataclass(slots=True)
class PatternGroup:
    """A part of a pattern that is one event to what is around it, the component ``number``.

    ``members`` are the components in it.  ``time`` is the duration behind `@`, None without one;
    ``guards`` are the components behind its `\\`.
    """

    number: int
    tree: PatternTree
    members: range
    time: Expression | None
    guards: list[int] = field(default_factory=list)


@dataclass(slots=True)
class OperandReader(ComponentReader):
    """Reads the pattern of a query, whose parts are separated by `;`."""

    groups: dict[int, PatternGroup] = field(default_factory=dict)  # by number
    separator: ClassVar[str] = ";"
    names_first: ClassVar[bool] = True
    article: ClassVar[str] = "a"
    noun: ClassVar[str] = "stream"

    def pattern(self) -> ReadPattern:
        """Read the pattern: a sequence, or several with | between them."""
        tree = self._merged(self._alternatives())
        for group in self.groups.values():
            group.tree = self._merged(group.tree)
            self._mark_optional(group.tree)
        for one in (tree, *[group.tree for group in self.groups.values()]):
            if isinstance(one, One) and one.until:
                span = self.found[one.until[0]].span
                hint = "\\ ends what waits: (t A ; t B) \\ u Z"
                raise AlgebraError(r"nothing comes before what \ ends", hint=hint, span=span)
        return self._whole(tree)

    def in_order(self) -> list[PatternGroup]:
        """Return the groups, inner ones first, and guards of a moment before the moment."""
        return sorted(
            self.groups.values(), key=lambda one: (max(one.number, *one.guards, 0), len(one.guards))
        )

    def _sequence(self) -> PatternTree:
        tree = ComponentReader._sequence(self)
        while self.reader.is_sign("\\"):
            self.reader.deeper()
            sign = self.reader.next()
            tree = self._without(tree, self._other(), sign)
        return tree

    def _item(self) -> PatternTree:
        first, reader = len(self.found), self.reader
        tree = ComponentReader._item(self)
        while reader.is_sign("@"):
            reader.deeper()
            sign = reader.next()
            zero = "leave @ out for the moment itself"
            time = parameter(reader.duration("5 min", zero=zero))
            if isinstance(tree, Absent):
                raise reader.fault("what does not occur has no @", sign.span)
            tree = self._grouped(tree, first, time)
        if isinstance(tree, Loop):
            for one in trees_in(tree):
                if isinstance(one, One | Absent) and one.component in self.groups:
                    hint = "publish it in a query of its own, and read the stream"
                    message = "what is repeated has no @, and behind \\ one event"
                    raise AlgebraError(message, hint=hint, span=reader.tokens[reader.at - 1].span)
        return tree

    # -- moments and exceptions ------------------------------------------------------------

    def _grouped(self, tree: PatternTree, first: int, time: Expression | None) -> PatternTree:
        """Return the component that stands for the tree, which becomes a new group.

        ``first`` is the number of its first component.  ``time`` is the duration behind `@`, None
        without one; x @ s @ t is x @ (s + t).
        """
        known = self.groups.get(tree.component) if isinstance(tree, One) else None
        if known is not None and time is not None and known.time and not known.guards:
            known.time = Arithmetic("+", known.time, time)
            return tree
        mark = None
        if isinstance(tree, One):
            tree, mark = replace(tree, mark=None), tree.mark
        number = len(self.found)
        span = self.found[first].span
        self.found.append(
            PatternVariable(f"@{number}", number, _NOTHING_YET, {}, False, False, span)
        )
        self.groups[number] = PatternGroup(number, tree, range(first, number), time)
        return One(number, mark)

    def _other(self) -> int:
        r"""Read what stands behind `\`, a negated event or group; return the number of its
        component.
        """
        first = len(self.found)
        tree = self._item()
        if not isinstance(tree, One) or tree.mark is not None:
            tree = self._grouped(tree, first, None)
        assert isinstance(tree, One)
        for number in range(first, len(self.found)):
            self.found[number] = replace(self.found[number], negated=True)
        return tree.component

    def _without(self, tree: PatternTree, other: int, sign: LanguageToken) -> PatternTree:
        r"""Return a pattern with the exception ``other``, a component behind `\`.

        An event of that component ends matches that wait for the last part of the pattern.
        """
        group = self.groups.get(tree.component) if isinstance(tree, One) else None
        match tree:
            case Chain(parts):
                return Chain((*parts[:-1], self._ended(parts[-1], other, sign)))
            case One() if group is not None and group.time is not None:
                group.guards.append(other)
                return tree
            case Loop(One(component), pace=pace) if pace != "every":
                self.found[other] = replace(self.found[other], ends=component)
            case _:
                pass
        return self._ended(tree, other, sign)

    def _ended(self, tree: PatternTree, other: int, sign: LanguageToken) -> PatternTree:
        """Return a pattern in which events of ``other`` end the wait for each step (`One.until`).

        ``sign`` is the token that an error points at.
        """
        match tree:
            case One(until=until):
                return replace(tree, until=(*until, other))
            case Loop(inner):
                return replace(tree, inner=self._ended(inner, other, sign))
            case Chain(parts) | Choice(parts):
                return replace(tree, parts=tuple([self._ended(p, other, sign) for p in parts]))
            case Absent():
                return tree
            case _:
                hint = "write !z into it: (a A AND b B AND !z Z)"
                raise self.reader.fault("\\ does not end what AND joins", sign.span, hint)

    # -- alternatives of one name ----------------------------------------------------------

    def _merged(self, tree: PatternTree) -> PatternTree:
        """Return a tree with nested chains and choices flattened.

        Alternatives that are single events of one name become one component.
        """
        tree = with_operands(tree, "PatternTree", self._merged)
        if isinstance(tree, Chain):
            return Chain(_flat(tree))
        if not isinstance(tree, Choice):
            return tree
        parts = _flat(tree)
        by_name: dict[str, list[One]] = {}
        for part in parts:
            if isinstance(part, One) and part.mark is None:
                by_name.setdefault(self.found[part.component].name, []).append(part)
        dropped: set[PatternTree] = set()
        for first, *others in by_name.values():
            own = self.found[first.component]
            nodes = [self.found[other.component].node for other in others]
            if any(node.schema != own.node.schema for node in nodes):
                raise AlgebraError(
                    f"there are two {own.name} in the pattern",
                    hint="alternatives of one alias have the same attributes",
                    span=self.found[others[0].component].span,
                )
            made = reduce(algebra.union, nodes, own.node)
            self.found[first.component] = replace(own, node=made)
            for one in others:
                known = self.found[one.component]
                name = f"|{one.component}"
                self.found[one.component] = replace(known, name=name, negated=True)
            dropped.update(others)
        left = tuple([part for part in parts if part not in dropped])
        return left[0] if len(left) == 1 else Choice(left)


def _flat(tree: Chain | Choice) -> tuple[PatternTree, ...]:
    """Return the parts of a tree; a part of the same kind is replaced by its own parts."""
    kind: type[Chain | Choice] = type(tree)
    parts = [part.parts if isinstance(part, kind) else (part,) for part in tree.parts]
    return tuple(chain.from_iterable(parts))
