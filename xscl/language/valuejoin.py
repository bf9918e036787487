"""Value-join normal form of the predicate between two inputs (Hong 2009, section 6.4).

A predicate becomes a union of disjuncts, each a conjunction.  Of a conjunction, what the two stages
answer themselves is put into the blocks: an equality between operands of one variable each becomes
a value join of two nodes (for `x1/author` a node bound below x1, for `lower-case(x2)` a derived
one), and a comparison of one variable with a constant becomes a condition of its block.  All else
is *residual*: tested on the candidates that the value joins leave.

A side is a block or a composite.  A composite's nodes are known; each operand over it is a leaf.

A join with OR is the union of the joins of its disjuncts (disjunctive normal form), each of which
has equalities of its own to be found by.  NOT is moved inwards to the atoms by De Morgan's laws and
stays there (`cep_core.algebra.normal_form`): the complement of `x1/a = x4/a` is not `x1/a != x4/a`,
because a path may select several nodes or none.  Only of two plain variables, each of which is one
node, is NOT = the same as !=.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard, assert_never, cast

from cep_core import algebra
from cep_core.algebra import MOST_DISJUNCTS, Junction, NumberedAtom, TooManyDisjuncts
from templates.model.join_graph import EXCHANGED, TemporalRelation
from xscl.language.conditions import as_condition
from xscl.language.faults import fault
from xscl.language.functions import (
    COMPARED_BY,
    COMPARED_NUMBER,
    DEFINING,
    NUMERIC,
    OPERANDS,
    TIME,
)
from xscl.language.scope import conjuncts, has_path, here, leaves, rewritten, walk
from xscl.language.syntax import (
    MIRRORED,
    And,
    Arithmetic,
    Block,
    Call,
    Comparison,
    Condition,
    Constant,
    DecoratedName,
    Exists,
    NameTest,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
    Span,
    Step,
    ValueTest,
    VariablePath,
)
from xscl.language.unparse import literal


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom, or (not `positive`) its complement."""

    atom: Comparison | Call
    positive: bool = True


def disjuncts(
    predicate: Predicate, source: str = "", unbound: frozenset[str] = frozenset()
) -> tuple[tuple[Literal, ...], ...]:
    """Return the predicate as OR of ANDs of literals, both in the order of the text.

    `unbound` are variables that may be bound to nothing, as after ELSE: for
    them NOT = is not the same as !=.

    No disjunct implies another by its literals alone or contradicts itself, so
    the result is empty for a predicate that never holds (`p AND NOT p`), and
    one empty disjunct for one that is `true`.  Raises QueryError where there
    are more than 64, for the whole or for a part of it.
    """

    parts = conjuncts(predicate)
    equalities = [one for one in parts if isinstance(one, Comparison) and one.operator == "="]
    if len(equalities) == len(parts):
        # Most joins are a few equalities: nothing to multiply out, and no contradiction.
        distinct: dict[object, Literal] = {}
        for equality in equalities:
            distinct.setdefault(_key(equality), Literal(equality))
        return (tuple(distinct.values()),)

    def is_plain(atom: Comparison | Call) -> TypeGuard[Comparison]:
        """True for = or != between two variables that are bound to one node each."""
        return (
            isinstance(atom, Comparison)
            and atom.operator in ("=", "!=")
            and all(
                isinstance(side, VariablePath)
                and not has_path(side)
                and side.variable not in unbound
                for side in (atom.left, atom.right)
            )
        )

    def numbered(atom: Comparison | Call, positive: bool) -> NumberedAtom:
        """Return an atom, or its complement if not `positive`, with the key of its spellings.

        Between plain variables `x != y` becomes the complement of `x = y`.
        """
        if is_plain(atom) and atom.operator == "!=":
            atom, positive = replace(atom, operator="="), not positive
        return NumberedAtom(_key(atom), atom, positive)

    def literal(atom: Comparison | Call, positive: bool) -> Literal:
        if not positive and is_plain(atom) and atom.operator == "=":
            return Literal(replace(atom, operator="!="))
        return Literal(atom, positive)

    try:
        found = algebra.disjuncts(predicate, _junction, numbered)
    except TooManyDisjuncts as error:
        raise fault(
            source,
            error.node.span,
            f"the predicate has more than {MOST_DISJUNCTS} alternatives once its ORs are "
            "multiplied out",
            "subscribe to the alternatives one by one, or move conditions on one document "
            "into its block",
        ) from None
    return tuple(tuple(literal(*one) for one in part) for part in found)


def _junction(predicate: Predicate) -> Junction | None:
    match predicate:
        case Not(part):
            return "not", (part,)
        case And(parts):
            return "and", parts
        case Or(parts):
            return "or", parts
        case _:
            return None


def _key(atom: Comparison | Call) -> object:
    """Return a key common to all spellings of a comparison: `x = y` and `y = x`."""
    match atom:
        case Comparison("=" | "!=" as operator, left, right):
            return operator, frozenset((left, right))
        case Comparison(">" | ">=" as operator, left, right):
            return MIRRORED[operator], right, left
        case Comparison(operator, left, right):
            return operator, left, right
        case Call():
            return atom


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One input of a join: its block, or None for a composite, and its variables.

    Those in `unbound` may be bound to nothing: they come after ELSE.
    """

    block: Block | None
    variables: frozenset[str]
    unbound: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Disjunct:
    """A conjunction in value-join normal form.

    `blocks` are the sides with the conditions put into them, None for a composite; `leaves` has for
    each side the names and operands by which a composite is compared.  An edge is a node of the
    left side, one of the right side, and the operator between them.  A node is named by its
    variable, or `$1`, `$2`, ... if it was made of a path, function or leaf.  Equalities come first.
    Without any, one edge may be a comparison of texts that an index answers.
    `crossed`: there is neither, so that all documents within the window are candidates.
    `never`: the predicate contradicts itself, so that nothing is a candidate.
    """

    relation: TemporalRelation
    blocks: tuple[Block | None, ...]
    leaves: tuple[tuple[tuple[str, Operand], ...], ...]
    edges: tuple[tuple[str, str, str], ...]
    residual: Predicate | None
    crossed: bool
    never: bool = False


def value_joins(
    predicate: Predicate | None,
    sides: tuple[JoinInput, JoinInput],
    relation: TemporalRelation,
    source: str,
    span: Span,
) -> tuple[Disjunct, ...]:
    """Return the disjuncts of a predicate between sides in a relation of time.

    An index of texts chooses candidates where no equality does.  A predicate that can never hold
    becomes one equality of two different constants.  Raises QueryError if a disjunct has no
    equality and there is no window.
    """
    unbound = sides[0].unbound | sides[1].unbound
    found = ((),) if predicate is None else disjuncts(predicate, source, unbound)
    if not found:
        return (_Conjunction(sides, relation).never(),)
    made = tuple(_Conjunction(sides, relation).take(literals) for literals in found)
    for one in made:
        chosen = not one.crossed and one.edges[0][2] == "="  # an equality chooses the candidates
        if not chosen and relation.window is None:
            message = "a join without an equality between its sides needs a window"
            hint = f"add an equality, or a window: {{{_example(sides)}}}"
            raise fault(source, span, message, hint)
    return made


def _example(sides: tuple[JoinInput, JoinInput]) -> str:
    """Return a constraint for a hint, such as `x = y, 1 d`, or `1 d` if a side has no variable."""
    names = [min(side.variables, default="") for side in sides]
    return f"{' = '.join(names)}, 1 d" if all(names) else "1 d"


class _Conjunction:
    """Turns the literals of one disjunct into edges, conditions of the blocks and residuals."""

    def __init__(self, sides: tuple[JoinInput, JoinInput], relation: TemporalRelation) -> None:
        self._sides = sides
        self._relation = relation
        self._blocks = [side.block for side in sides]
        self._leaves: list[list[tuple[str, Operand]]] = [[], []]
        self._edges: list[tuple[str, str, str]] = []
        self._residuals: list[Predicate] = []
        self._made = 0
        self._known: set[object] = set()

    def take(self, literals: tuple[Literal, ...]) -> Disjunct:
        """Return the disjunct of a conjunction of literals."""
        for one in literals:
            if not (self._joins(one) or self._restricts(one)):
                self._residuals.append(one.atom if one.positive else Not(one.atom))
        crossed = not (any(edge[2] == "=" for edge in self._edges) or self._compares_texts())
        if crossed:
            self._join_constants("", "")
        residual = self._residuals[0] if len(self._residuals) == 1 else And(tuple(self._residuals))
        return Disjunct(
            self._relation,
            tuple(self._blocks),
            tuple(map(tuple, self._leaves)),
            tuple(sorted(dict.fromkeys(self._edges), key=lambda one: one[2] != "=")),
            residual if self._residuals else None,
            crossed,
        )

    def never(self) -> Disjunct:
        """Return the disjunct that no pair of documents satisfies."""
        self._join_constants("left", "right")
        return replace(self.take(()), never=True)

    def _join_constants(self, left: str, right: str) -> None:
        self._edges.append((self._node(0, Constant(left)), self._node(1, Constant(right)), "="))

    # -- Value joins -----------------------------------------------------------------------

    def _joins(self, literal: Literal) -> bool:
        """Add a literal that stage 2 can answer as an edge; return True if it is one.

        `!=` is answered between nodes only: a function may have no value.
        """
        atom = literal.atom
        if not (literal.positive and isinstance(atom, Comparison)):
            return False
        if atom.operator not in ("=", "!="):
            return False
        places = [self._place(operand) for operand in (atom.left, atom.right)]
        if sorted(places) != [0, 1]:
            return False
        left, right = _comparable(atom.left, atom.right)
        if places == [1, 0]:
            left, right = right, left
        if atom.operator == "!=" and not (_is_path(left) and _is_path(right)):
            return False
        # The same comparison again says nothing new; it must not make further nodes.
        if (atom.operator, left, right) in self._known:
            return True
        self._known.add((atom.operator, left, right))
        self._edges.append((self._node(0, left), self._node(1, right), atom.operator))
        return True

    def _place(self, operand: Operand) -> int:
        """Return the side (0, 1) of an operand with one variable, or with one path on it; else -1.

        Stage 1 sees no times, so what reads the time of a document is no node.
        """
        found: list[VariablePath] = []
        for node in walk(operand):
            if isinstance(node, Call) and node.function == TIME:
                return -1
            if isinstance(node, VariablePath):
                found.append(node)
        names = {leaf.variable for leaf in found}
        if len(names) != 1 or (len(found) > 1 and any(map(has_path, found))):
            return -1
        return 0 if names <= self._sides[0].variables else 1

    def _node(self, side: int, operand: Operand) -> str:
        """Return the name of the node that an operand stands for on a side, made if need be."""
        plain = isinstance(operand, VariablePath) and not has_path(operand)
        if plain and self._blocks[side] is not None:
            return cast(VariablePath, operand).variable
        self._made += 1
        name = f"${self._made}"
        if self._blocks[side] is None:
            self._leaves[side].append((name, operand))
        else:
            self._derive(side, operand, name)
        return name

    def _derive(self, side: int, operand: Operand, name: str) -> None:
        """Bind `name` to the node of an operand, or to a derived node with the operand's value."""
        found = next((leaf for leaf in leaves(operand) if isinstance(leaf, VariablePath)), None)
        path = Path() if found is None else found.path
        steps = path.steps
        if isinstance(operand, VariablePath) and path.text is None:
            steps = (*steps[:-1], replace(steps[-1], variable=name))
        else:
            node = VariablePath("", Path((), path.text))
            inner = rewritten(operand, lambda one: node if isinstance(one, VariablePath) else one)
            steps = (*steps, Step(NameTest(None, None), derived=inner, variable=name))
        condition = Exists(Path(steps))
        self._attach(side, None if found is None else found.variable, condition)

    def _compares_texts(self) -> bool:
        """Make an edge of the first residual that is a comparison of texts which an index answers.

        Return False if there is none.
        """
        for at, atom in enumerate(self._residuals):
            found = _text_comparison(atom)
            if found is None or not all(map(self._is_one_text, found.operands)):
                continue
            places = [self._place(operand) for operand in found.operands]
            if sorted(places) != [0, 1]:
                continue
            del self._residuals[at]
            exchanged = places == [1, 0] and not found.symmetric
            operator = f"{EXCHANGED if exchanged else ''}{found.operator}"
            by_side = dict(zip(places, found.operands, strict=True))
            left, right = (
                self._node(side, Call(COMPARED_BY, (by_side[side], Constant(operator))))
                for side in (0, 1)
            )
            self._edges.append((left, right, operator))
            return True
        return False

    def _is_one_text(self, operand: Operand) -> bool:
        """Return True if an operand has one text for each node that its variable is bound to."""
        match operand:
            case VariablePath(variable):
                unbound = self._sides[0].unbound | self._sides[1].unbound
                return not has_path(operand) and variable not in unbound
            case Call("canonical-url"):
                return False
            case Call(function, arguments):
                return OPERANDS[function].result is str and all(
                    isinstance(argument, Constant) or self._is_one_text(argument)
                    for argument in arguments
                )
            case _:
                return False

    # -- Conditions ------------------------------------------------------------------------

    def _restricts(self, literal: Literal) -> bool:
        """Push a condition on a single node into its block; return False for other literals.

        `<`, `<=`, `>` and `>=` with a string are no conditions, and stay residual.
        """
        named = [leaf for leaf in leaves(literal.atom) if not isinstance(leaf, Constant)]
        if not (literal.positive and len(named) == 1 and isinstance(named[0], VariablePath)):
            return False
        variable = named[0].variable
        match as_condition(rewritten(literal.atom, here)):
            case ValueTest(_, ("<" | "<=" | ">" | ">="), str()):
                return False
            case ValueTest(through=None) as condition:
                side = next(n for n, s in enumerate(self._sides) if variable in s.variables)
            case _:
                return False
        if self._blocks[side] is None:
            return False
        self._attach(side, variable, condition)
        return True

    def _attach(self, side: int, variable: str | None, condition: Condition) -> None:
        """Add a condition to the step that binds a variable; with None to the block's last step."""
        block = self._blocks[side]
        assert block is not None
        if variable is None:
            *before, last = block.steps
            last = replace(last, conditions=(*last.conditions, condition))
            self._blocks[side] = replace(block, steps=(*before, last))
        else:
            self._blocks[side] = replace(block, steps=_with(block.steps, variable, condition))


class _TextComparison(NamedTuple):
    """A comparison of two texts that an index answers, with its operator."""

    operator: str
    operands: tuple[Operand, ...]
    symmetric: bool = False


def _text_comparison(atom: Predicate) -> _TextComparison | None:
    match atom:
        case Call("contains" | "starts-with" | "ends-with" as function, operands):
            return _TextComparison(function, operands)
        case Comparison(sign, Call("jaccard", operands), Constant(float() as bound)):
            pass
        case Comparison(mirrored, Constant(float() as bound), Call("jaccard", operands)):
            sign = MIRRORED[mirrored]
        case _:
            return None
    if sign not in (">", ">="):
        return None
    return _TextComparison(f"jaccard {sign} {literal(bound)}", operands, symmetric=True)


def _is_path(operand: Operand) -> bool:
    return isinstance(operand, VariablePath) and operand.path.text is None


def _comparable(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Return the operands of a comparison; if one is numeric the other is compared as a number."""
    if is_numeric(left) == is_numeric(right):
        return left, right
    return _number(left), _number(right)


def _number(operand: Operand) -> Operand:
    return operand if is_numeric(operand) else Call(COMPARED_NUMBER, (operand,))


def _with(steps: tuple[Step, ...], variable: str, condition: Condition) -> tuple[Step, ...]:
    """Return the steps with a condition added to the step that binds a variable."""

    def extended(node: Any) -> Any:
        if isinstance(node, Step) and node.variable == variable:
            return replace(node, conditions=(*node.conditions, condition))
        return node

    return rewritten(steps, extended)


def is_untyped(operand: Operand) -> bool:
    """Return True for a value of a document: its text decides if it is compared as a number."""
    return isinstance(operand, VariablePath | DecoratedName)


def is_numeric(operand: Operand) -> bool:
    """Return True if an operand has the static type number; its comparison is then numeric."""
    match operand:
        case Constant(value):
            return not isinstance(value, str)
        case Arithmetic():
            return True
        case Call(function):
            return DEFINING[function].result in NUMERIC
        case VariablePath() | DecoratedName():
            return False
        case _:
            assert_never(operand)
