"""The clauses WITHIN and AFTER MATCH, behind the conditions of a pattern."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from cep_core.algebra import Loop, One, Rules
from cep_core.algebra.expressions import Expression
from cep_core.algebra.pattern_tree import Policy, StepMark, trees_in
from cep_core.errors import AlgebraError, Span
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.sase.components import ReadPattern
from cep_core.languages.sase.scope import Variables

_POLICIES: dict[tuple[str, ...], Policy] = {
    ("SKIP", "TO", "NEXT"): "to next",
    ("SKIP", "PAST", "LAST"): "past last",
    ("FIRST", "ONLY"): "first only",
    ("RESTART",): "restart",
    ("NEWEST",): "newest",
    ("SKIP", "TO", "FIRST"): "to first",
    ("SKIP", "TO", "LAST"): "to last",
}


class Clauses(NamedTuple):
    """The bounds and the match policy of a pattern."""

    inclusive: bool
    window: Expression | None
    policy: Policy
    target: int | None

    def rules(self, pattern: ReadPattern, simultaneous: bool, mark: StepMark) -> Rules:
        """Return the rules of a pattern."""
        return Rules(
            *(self.window, self.inclusive, simultaneous, mark),
            policy=self.policy,
            target=self.target,
            spans=pattern.spans,
        )


def clauses(reader: TokenReader, variables: Variables) -> Clauses:
    """Read WITHIN and AFTER MATCH, if they are there."""
    return Clauses(*_within(reader), *_after_match(reader, variables))


def require_partition(pattern: ReadPattern, partition: Collection[str], span: Span) -> None:
    """Raise AlgebraError at the mark partition if there are no partitions."""
    marks = [one.mark for one in trees_in(pattern.tree) if isinstance(one, One | Loop)]
    if "partition" in marks and not partition:
        raise without_partition("the mark partition", span)


def without_partition(what: str, span: Span) -> AlgebraError:
    """Return the error for what needs partitions, and has none."""
    message = f"{what} needs an equivalence test over all components"
    return AlgebraError(message, hint="add one to the condition, such as [id]", span=span)


def _within(reader: TokenReader) -> tuple[bool, Expression | None]:
    """Read the window, and whether its length belongs to it."""
    if not reader.take_word("WITHIN"):
        return False, None
    hint = "leave WITHIN out if there is no window"
    inclusive = reader.take_sign("<=")
    zero = None if inclusive else hint
    return inclusive, parameter(reader.duration("12 hours", zero=zero, before="AFTER"))


def _after_match(reader: TokenReader, variables: Variables) -> tuple[Policy, int | None]:
    """Read AFTER MATCH and its policy, with the component that it goes to."""
    if not reader.take_word("AFTER"):
        return "none", None
    reader.expect_word("MATCH")
    start = reader.at
    words = [reader.next().word for _ in range(_longest(reader))]
    policy = _POLICIES.get(tuple(words))
    if policy is None:
        to = ("to first", "to last")
        known = ", ".join(" ".join(words) + " x" * (one in to) for words, one in _POLICIES.items())
        message = "this is no policy after a match"
        raise reader.fault(message, reader.tokens[start].span, f"policies are {known}")
    if policy not in ("to first", "to last"):
        return policy, None
    token = reader.expect_name("a component")
    variable = variables.named(token.text)
    if variable is None or variable.negated:
        known = ", ".join(one.name for one in variables.positive())
        message = f"there is no component {token.text} that occurs"
        raise reader.fault(message, token.span, f"components are {known}")
    return policy, variable.position


def _longest(reader: TokenReader) -> int:
    """Return the number of words of the policy that may be next."""
    sizes = {words[0]: len(words) for words in _POLICIES}
    return sizes.get(reader.token.word, 0)
