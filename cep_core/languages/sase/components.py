"""The pattern behind EVENT: components, quantifiers, marks, groups, alternatives, AND.

It becomes a tree over the numbers of its components.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import ClassVar, cast, get_args

from cep_core import algebra
from cep_core.algebra import Absent, Chain, Choice, Loop, Node, One, Unordered, patterns
from cep_core.algebra.expressions import Column, Constant, Expression, Functions
from cep_core.algebra.pattern_automaton import empties
from cep_core.algebra.pattern_tree import LoopPace, PatternTree, StepMark, components_in, trees_in
from cep_core.errors import AlgebraError, Extent, SchemaFault
from cep_core.languages.names import StreamCatalog, known_schema
from cep_core.languages.reader import NO_EVENT, TokenReader, parameter
from cep_core.languages.sase.scope import TAG, PatternVariable, index_of
from cep_core.languages.tokens import LanguageToken

KEYWORDS = ("EVENT", "SEQ", "ANY", "WHERE", "WITHIN", "RETURN", "PUBLISH", "AS")
TIMES = r"\{\s*\d+\s*(?:,\s*\d*\s*)?\}"  # a quantifier, whose numbers belong to the shape
_MARKS: dict[str, StepMark] = {mark.upper(): mark for mark in get_args(StepMark)}
_PACES = ("GREEDY", "RELUCTANT", "LONGEST")
_SIMPLE = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_MOST_NESTED = 20
_NAMES = ("name", "calendar")  # tokens that begin a type


@dataclass(frozen=True, slots=True)
class ReadPattern:
    """The components of a pattern, and their tree; ``spans`` are the durations in it.

    Unordered parts and absences of the tree name their duration by its index in ``spans``.
    """

    variables: list[PatternVariable]
    tree: PatternTree
    spans: tuple[Expression, ...]


@dataclass(slots=True)
class ComponentReader:
    """Reads the pattern of a query into ``found``, and the names of its streams into ``reads``.

    With ``names_first`` the names of components stand before quantifiers.
    """

    reader: TokenReader
    catalog: StreamCatalog
    functions: Functions
    reads: dict[str, None]
    found: list[PatternVariable] = field(default_factory=list)
    spans: list[Expression] = field(default_factory=list)
    bracketed: set[int] = field(default_factory=set)  # components whose names have []
    depth: int = 0
    separator: ClassVar[str] = ","
    names_first: ClassVar[bool] = False
    article: ClassVar[str] = "an"
    noun: ClassVar[str] = "event type"

    def pattern(self) -> ReadPattern:
        """Read SEQ and its components, or one component or group."""
        reader = self.reader
        if self._is_call("SEQ"):
            reader.next()
            reader.expect_sign("(")
            tree = self._sequence()
            hint = f"{reader.token.text} is a word of the language: a variable needs another name"
            if reader.token.word in KEYWORDS:
                raise reader.expected("')' or a comma", hint)
            reader.expect_sign(")", " or a comma")
        elif reader.is_sign("!"):
            raise reader.expected("SEQ (a negation needs a sequence)")
        else:
            tree = self._item()
        return self._whole(tree)

    def _whole(self, tree: PatternTree) -> ReadPattern:
        """Return the pattern of a tree after checks; components in optional parts are marked."""
        self._require_names()
        self._refuse_every(tree)
        if all(one.negated for one in self.found):
            raise AlgebraError("some component has to occur", span=self.found[0].span)
        self._mark_optional(tree)
        return ReadPattern(self.found, tree, tuple(self.spans))

    def _refuse_every(self, tree: PatternTree) -> None:
        """Raise AlgebraError if a pattern begins with EVERY: each first event begins a match."""
        first = tree
        while isinstance(first, Chain):
            first = next((part for part in first.parts if not isinstance(part, Absent)), Choice(()))
        if isinstance(first, Loop) and first.pace == "every":
            number = min(components_in(first))
            raise AlgebraError(
                "EVERY stands behind an event: a pattern begins with each first one anyway",
                hint="leave it out; AFTER MATCH RESTART follows one start at a time",
                span=self.found[number].span,
            )

    def _require_names(self) -> None:
        names = [one.name for one in self.found]
        for place, one in enumerate(self.found):
            if one.name in names[:place]:
                raise AlgebraError(
                    f"two components are called {one.name}",
                    hint="give each a variable of its own",
                    span=one.span,
                )

    def _mark_optional(self, tree: PatternTree) -> None:
        """Mark the components in `found` that a match may lack, those in choices, `?` and `*`."""
        for part in trees_in(tree):
            if isinstance(part, Choice) or (isinstance(part, Loop) and part.least == 0):
                for number in components_in(part):
                    self.found[number] = replace(self.found[number], optional=True)

    # -- groups ----------------------------------------------------------------------------

    def _sequence(self) -> PatternTree:
        parts = [self._item()]
        while self.reader.take_sign(self.separator):
            if len(self.found) >= patterns.MOST_COMPONENTS:
                message = f"a sequence has at most {patterns.MOST_COMPONENTS} components"
                raise self.reader.fault(message, self.reader.token.span)
            parts.append(self._item())
        return parts[0] if len(parts) == 1 else Chain(tuple(parts))

    def _item(self) -> PatternTree:
        """Read a component or a group, with its mark and its quantifier."""
        reader = self.reader
        start = reader.token
        if self._begins_word("EVERY"):
            reader.next()
            if self._begins_word("EVERY"):
                raise reader.expected("a component or a group")
            return self._every(self._item(), start)
        mark = self._mark()
        if self._begins_word("EVERY"):
            hint = f"write every {mark}"
            raise reader.fault("a mark stands behind EVERY", reader.token.span, hint)
        if not reader.is_sign("("):
            return self._component(mark)
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise reader.fault(f"groups are at most {_MOST_NESTED} inside one another", start.span)
        first = len(self.found)
        reader.next()
        tree = self._alternatives()
        comma = "a comma" if self.separator == "," else self.separator
        reader.expect_sign(")", f", {comma}, | or AND")
        self.depth -= 1
        if mark is not None:
            tree = self._marked(tree, mark, start)
        times = self._times()
        if times is None:
            return tree
        if any(isinstance(one, Loop) and one.pace == "every" for one in trees_in(tree)):
            hint = "write it behind the group"
            raise reader.fault("what is repeated has no EVERY", start.span, hint)
        if not empties(tree):
            for number in range(first, len(self.found)):
                runs = times[1] != 1 or number in self.bracketed
                if runs and not self.found[number].negated:
                    known = self.found[number]
                    self.found[number] = replace(known, repeated=True, group=first)
        else:
            raise AlgebraError("what is repeated has to take some event", span=start.span)
        pace, inner = self._manner(named=False)
        if self._is_clause("UNTIL"):
            hint = "write it behind the run of one component"
            raise reader.fault("UNTIL does not end a group", reader.token.span, hint)
        least, most = times
        return Loop(tree, least, most, pace, inner)

    def _every(self, tree: PatternTree, start: LanguageToken) -> PatternTree:
        """Return the loop that EVERY, the token ``start``, makes of the part behind it."""
        if empties(tree):
            raise AlgebraError("EVERY needs some event that has to occur", span=start.span)
        return Loop(tree, 1, pace="every")

    def _alternatives(self) -> PatternTree:
        """Read the pattern in parentheses: a sequence, alternatives, or an unordered part (AND)."""
        reader = self.reader
        parts = [self._sequence()]
        if self._is_clause("AND"):
            return self._unordered(parts[0])
        while reader.take_sign("|") or self._take_clause("OR"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        if all(isinstance(part, Absent) and part.time is None for part in parts):
            hint = "an absence with a time of its own may stand alone: !(C c) FOR 5 s"
            raise reader.fault("one of the alternatives has to occur", reader.token.span, hint)
        return Choice(tuple(parts))

    def _unordered(self, first: PatternTree) -> PatternTree:
        """Read AND and the components behind ``first``; WITHIN bounds how far apart they end."""
        reader, parts = self.reader, [first]
        span = reader.token.span
        while self._take_clause("AND"):
            parts.append(self._item())
        for one in parts:
            if not isinstance(one, Absent) and not (isinstance(one, One) and one.mark is None):
                hint = "write groups before or after it"
                raise AlgebraError("AND joins single components", hint=hint, span=span)
        numbers = [part.component for part in parts if isinstance(part, One)]
        absences = [part for part in parts if isinstance(part, Absent)]
        if not numbers and any(absence.time is None for absence in absences):
            hint = "or each absence has a time of its own: !(C c) FOR 5 s"
            raise AlgebraError("some component of AND has to occur", hint=hint, span=span)
        if len(numbers) > 6:
            raise AlgebraError("AND joins at most 6 components", span=span)
        bound = None
        if numbers and reader.take_word("WITHIN"):
            self.spans.append(parameter(reader.duration("5 min")))
            bound = len(self.spans) - 1
        if not numbers:  # only silences are joined: all of them begin together
            first, *others = absences
            return Chain((first, *[replace(other, beside=True) for other in others]))
        unordered = Unordered(tuple(numbers), bound)
        along = [replace(absence, spanning=True) for absence in absences]
        return Chain((unordered, *along)) if along else unordered

    def _marked(self, tree: PatternTree, mark: StepMark, start: LanguageToken) -> PatternTree:
        """Return a group with a mark on each step that may be its first."""
        match tree:
            case One(_, None):
                return replace(tree, mark=mark)
            case Loop(inner):
                return replace(tree, inner=self._marked(inner, mark, start))
            case Choice(parts):
                return Choice(tuple([self._marked(part, mark, start) for part in parts]))
            case Chain(parts):
                made: list[PatternTree] = []
                for place, one in enumerate(parts):
                    begins = all(empties(before) for before in parts[:place])
                    taking = begins and not isinstance(one, Absent)
                    made.append(self._marked(one, mark, start) if taking else one)
                return Chain(tuple(made))
            case Unordered():
                message = "what AND joins has no mark: its events come in any order"
                raise AlgebraError(message, span=start.span)
            case _:
                return tree

    # -- words -----------------------------------------------------------------------------

    def _is_call(self, word: str) -> bool:
        return self.reader.is_word(word) and self._after().text == "("

    def _is_any(self) -> bool:
        """Return True at ANY(A, B); False at the mark any before a group, (A a, ..)."""
        reader = self.reader
        if not self._is_call("ANY"):
            return False
        at = reader.at + 2
        while reader.tokens[at].kind in _NAMES and reader.tokens[at + 1].text in (",", "-"):
            at += 2
        if reader.tokens[at].kind in _NAMES:
            return reader.tokens[at + 1].text == ")"
        return reader.tokens[at].text not in ("(", "!")

    def _after(self) -> LanguageToken:
        """Return the token after the next one."""
        reader = self.reader
        return reader.tokens[min(reader.at + 1, len(reader.tokens) - 1)]

    def _is_clause(self, word: str) -> bool:
        """Return True if the next token is ``word`` as a keyword, not as a name.

        It is a keyword if a type, a group or a negation follows it.
        """
        after = self._after()
        follows = after.kind in _NAMES or after.text in ("(", "!")
        return self.reader.is_word(word) and follows

    def _take_clause(self, word: str) -> bool:
        found = self._is_clause(word)
        if found:
            self.reader.next()
        return found

    def _mark(self) -> StepMark | None:
        """Read a mark, None without one; a name of a stream, or ANY of types, is none."""
        return _MARKS[self.reader.next().word] if self._begins_word(*_MARKS) else None

    def _begins_word(self, *words: str) -> bool:
        """Return True if the next token is one of ``words``, used as a keyword.

        It is a keyword if an item of the pattern follows and no stream has its name.
        """
        token, after = self.reader.token, self._after()
        if token.word not in words or self.catalog.schema(token.text) is not None:
            return False
        opens = after.text == "!" or (after.text == "(" and not self._is_any())
        return after.kind in _NAMES or opens

    def _times(self) -> tuple[int, int | None] | None:
        """Read a quantifier as (least, most) times, most None without a limit; None without one."""
        reader = self.reader
        token = reader.token
        if token.kind == "sign" and token.text in _SIMPLE:
            reader.next()
            return _SIMPLE[token.text]
        if token.kind != "verbatim" or not token.text.startswith("{"):
            return None
        reader.next()
        least, comma, most = token.text.strip("{} \t\r\n").partition(",")
        numbers = int(least), (int(most) if most.strip() else None) if comma else int(least)
        if numbers[1] is not None and numbers[1] < max(1, numbers[0]):
            hint = "the second number is the larger one, and at least 1"
            raise reader.fault(f"there is no repetition {token.text}", token.span, hint)
        return numbers

    def _manner(self, named: bool = True) -> tuple[LoopPace, StepMark | None]:
        """Read the manner of a run: return its pace, and the mark of all its events but the first.

        If the component's name may follow (``named``), a word such as `next` is that name unless a
        name, a comma, `)` or `|` follows it.
        """
        reader = self.reader
        pace: LoopPace = "all"
        if reader.is_word(*_PACES) and self._goes_on(named):
            pace = cast(LoopPace, reader.next().word.lower())
        mark: StepMark | None = None
        if reader.token.word in _MARKS and self._goes_on(named):
            mark = _MARKS[reader.next().word]
        return pace, mark

    def _goes_on(self, named: bool) -> bool:
        """Return True if the next word, a pace or a mark, is no variable.

        It is one if a variable may stand here (``named``), unless a name, a comma, `)` or `|`
        follows it.
        """
        after = self._after()
        if self.names_first or not named:
            return True
        return after.kind == "name" or after.text in (",", ")", "|")

    # -- components ------------------------------------------------------------------------

    def _component(self, mark: StepMark | None) -> PatternTree:
        """Read a component, behind ``mark`` if it is not None."""
        reader = self.reader
        start = reader.token.span
        negated = reader.take_sign("!")
        if negated and mark is not None:
            raise AlgebraError("what is negated has no mark", span=start)
        inside, brackets = negated and reader.take_sign("("), False
        streams, name = self._types()
        if self.names_first:
            name, start, _ = self._named(name, start)
        sign = reader.token
        times = self._times()
        if times is not None and negated:
            message = f"what is negated occurs not even once, so {sign.text} says nothing"
            raise AlgebraError(message, span=start)
        repeated = times is not None and times[1] != 1
        pace, inner = self._manner() if times is not None else ("all", None)
        if not self.names_first:
            name, start, brackets = self._named(name, start, times is not None)
            repeated = repeated or (brackets and times is not None)
        if inside:
            reader.expect_sign(")")
        number = self._add(name, streams, negated, repeated, start)
        if brackets:
            self.bracketed.add(number)
        if negated:
            return Absent(number, time=self._time_of_absence())
        until = self._until(times is not None)
        if times is None:
            return One(number, mark)
        least, most = times
        return Loop(One(number, mark), least, most, pace, inner, until)

    def _time_of_absence(self) -> int | None:
        """Read FOR and a duration; return the place of that in `spans`, None without FOR."""
        if not self._is_for():
            return None
        self.reader.next()
        zero = "leave FOR out for what is between two events"
        self.spans.append(parameter(self.reader.duration("5 s", zero=zero)))
        return len(self.spans) - 1

    def _is_for(self) -> bool:
        """Return True at FOR and a number, where FOR is no name."""
        return self.reader.is_word("FOR") and self._after().kind == "literal"

    def _named(self, name: str, start: Extent, runs: bool = False) -> tuple[str, Extent, bool]:
        """Return the name of a component, its place, and True if [] makes it a run.

        Without a name the result is ``name``, ``start`` and False.  [] needs a quantifier of the
        type (``runs``) or a group around it; `A{1} a[]` is a run of one event.
        """
        reader = self.reader
        if not reader.is_name() or self._is_clause_word() or self._is_for():
            return name, start, False
        token = reader.next()
        brackets = reader.token
        named = take_brackets(reader)
        if named and not runs and not self.depth:
            raise AlgebraError(
                f"{token.text}[] is a run, and its type is not repeated",
                hint="write + after the type",
                span=brackets.span,
            )
        return token.text, token.span, named

    def _is_clause_word(self) -> bool:
        return any(map(self._is_clause, ("UNTIL", "AND", "OR", "NONSTRICT", "AFTER")))

    def _add(
        self, name: str, streams: list[algebra.Stream], negated: bool, repeated: bool, span: Extent
    ) -> int:
        node, lacking = self._any(streams, span)
        number = len(self.found)
        self.found.append(PatternVariable(name, number, node, lacking, negated, repeated, span))
        return number

    def _until(self, runs: bool) -> int | None:
        """Read UNTIL and the types that end a run; return their component, None without UNTIL.

        ``runs`` says that the component before UNTIL is a run; for any other UNTIL is an error.
        """
        reader = self.reader
        if not self._is_clause("UNTIL"):
            return None
        token = reader.next()
        if not runs:
            raise AlgebraError("UNTIL ends a run", hint="write + after the type", span=token.span)
        streams, name = self._types()
        name, span, _ = self._named(name, token.span)
        number = self._add(name, streams, True, False, span)
        self.found[number] = replace(self.found[number], ends=number - 1)
        return number

    def _types(self) -> tuple[list[algebra.Stream], str]:
        """Read a type, or ANY of several; return their streams and their default name.

        The default is the name of a component that has no variable.
        """
        reader = self.reader
        if not self._is_any():
            first = reader.token
            stream = self._type()
            return [stream], f"at{first.start}" if first.kind == "calendar" else stream.name
        start = reader.next()
        reader.expect_sign("(")
        streams = reader.listed(self._type)
        reader.expect_sign(")", " or a comma")
        for place, one in enumerate(streams):
            if one in streams[:place]:
                raise AlgebraError(f"ANY names {one.name} twice", span=start.span)
        return streams, f"any{start.start}" if len(streams) > 1 else streams[0].name

    def _type(self) -> algebra.Stream:
        """Read a type or a calendar; the paper's SHELF-READING finds SHELF_READING."""
        reader = self.reader
        instants = reader.calendar()
        if instants is not None:
            self.reads[instants.name] = None
            return instants
        if reader.token.kind != "name":
            raise reader.expected(f"{self.article} {self.noun}")
        if self._is_call("SEQ"):
            hint = "write the components of both one after the other"
            message = "a sequence cannot be inside a sequence"
            raise reader.fault(message, reader.token.span, hint)
        token = reader.next()
        text, end = token.text, token.end
        while reader.is_sign("-") and reader.tokens[reader.at + 1].kind == "name":
            reader.next()
            part = reader.next()
            text, end = f"{text}_{part.text}", part.end
        if text.upper() == "NOT" and reader.token.kind == "name":
            raise reader.fault(f"{text} stands in conditions only", token.span, NO_EVENT)
        schema = known_schema(self.catalog, self.noun, text, Extent(token.start, end))
        self.reads[text] = None
        return algebra.stream(text, schema)

    def _any(
        self, streams: list[algebra.Stream], span: Extent
    ) -> tuple[Node, dict[str, tuple[int, ...]]]:
        """Return the union of streams, and the attributes that some of them lack.

        The second has for each such attribute the indexes in ``streams`` of those without it.
        """
        types: dict[str, type] = {}
        for one in streams:
            for name, kind in zip(one.schema.names, one.schema.types, strict=True):
                if types.setdefault(name, kind) is not kind:
                    raise AlgebraError(
                        f"{name} has another type in {one.name}",
                        hint="ANY needs one type for each attribute; use a query for each",
                        span=span,
                        kind=SchemaFault,
                    )
        nodes: list[Node] = [*streams]
        lacking: dict[str, tuple[int, ...]] = {}
        if any(stream.schema != streams[0].schema for stream in streams):
            nodes = []
            for number, one in enumerate(streams):
                columns: dict[str, Expression] = dict.fromkeys(types, Constant(None))
                columns |= {name: Column(2, at) for at, name in enumerate(one.schema.names)}
                columns[TAG] = Constant(number)
                nulls = [*types.values(), int]
                nodes.append(algebra.project(one, [*columns.items()], self.functions, span, nulls))
                for name in types:
                    if name not in one.schema.names:
                        lacking[name] = (*lacking.get(name, ()), number)
        return reduce(lambda left, right: algebra.union(left, right, span), nodes), lacking


def take_brackets(reader: TokenReader) -> bool:
    """Consume [] if it is next; return True if so."""
    token = reader.token
    found = token.kind == "verbatim" and index_of(token.text) == ""
    if found:
        reader.next()
    return found
