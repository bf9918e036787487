"""Texts without their constants: thousands of queries differ in nothing else.

`split` takes the strings and numbers that something is compared with out of a
text; texts with the same rest have one *shape*, and what a `ShapeMemo` has
computed of it serves them all.  It computes a shape with `marks` in the constants'
places: values that stand out, to be found again in the result.

Only constants are taken out whose value cannot matter before a document is
looked at: an operand of a comparison, a sum or a product, or the last argument
of a function.  The empty string is none, since each text contains it, nor is a number that is not
written as it would be printed, `0.10`: XPath keeps its text.  Equal constants are one, so that a
shape also says which are equal.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from xscl.errors import XsclError
from xscl.language.syntax import Span
from xscl.language.unparse import literal

Constant: TypeAlias = "str | float"
Fill: TypeAlias = Callable[[Sequence[Constant]], Any]
T = TypeVar("T")
F = TypeVar("F", bound=Fill)

MOST = 64
"""Constants of one text; one with more has no shape."""

_MARK = "\ue000"
_CONSTANT = r"""
    (?: (?<=[<>=,]) \s* (?!["'][smixq]{1,5}["']\s*\))           # no flags of an expression
        (?: "(?P<double>[^\x00-\x20"'{}&<][^"'{}&<]*)"
                         | '(?P<single>[^\x00-\x20"'{}&<][^"'{}&<]*)' )
      | (?<=[<>=+*]) \s* (?=[\d.]{1,16}(?![\d.]))                # as it would be printed
        (?P<number>(?:0|[1-9]\d{0,14})(?:\.\d{0,13}[1-9])?) )
    (?= \s* (?: [\]),}+*-] | (?i:and|or|div|mod|as)\b ) )"""
_TOKEN = re.compile(
    rf"""--[^\n]* | Q\{{[^{{}}]*\}}                              # a comment, a namespace
      | (?: (?!Q\{{) [^\W\d](?:[\w.']|-(?!>))*                # names, and what is between them
            (?: [\s/\[\]().$@{{}}:] | \*(?!\s*\d) | ->(?=[^\W\d]) )* )+
      | [<>=,+*] {_CONSTANT}
      | "[^"]*" | '[^']*'                                     # any other string""",
    re.VERBOSE,
)
_EXPRESSIONS = re.compile(r"\b(?:matches|replace|tokenize)\s*\(")
"""The functions whose constants are regular expressions."""
_MATCHES = re.compile(
    r"""\bmatches\s*\( (?: [^()"'] | \([^()"']*\) )* ,\s*
    (?: "(?P<double>[^"]*)" | '(?P<single>[^']*)' ) \s* (?: ,\s* "(?P<flags>[^"]*)" \s* )? \)""",
    re.VERBOSE,
)
_SIMPLE = re.compile(rf"""[<>=,+*"] (?: {_CONSTANT} | (?<=") [^"]*" )""", re.VERBOSE)
"""Does what `_TOKEN` does, much faster, where only strings in double quotes hide anything."""


class TextShape(NamedTuple):
    """A text without its constants: the `pieces` around them.

    For each constant of the text, `numbers` says if it is a number, and `same` has its position
    among the different constants.
    """

    pieces: tuple[str, ...]
    numbers: tuple[bool, ...]
    same: tuple[int, ...]

    def text(self, constants: Sequence[Constant]) -> str:
        """Return the text with the given different constants in it."""
        parts = [self.pieces[0]]
        for piece, place in zip(self.pieces[1:], self.same, strict=True):
            parts += (_printed(constants[place]), piece)
        return "".join(parts)

    @property
    def distinct(self) -> tuple[bool, ...]:
        """For each different constant, in their order, True if it is a number."""
        return tuple(self.numbers[self.same.index(i)] for i in range(len(set(self.same))))


def split(text: str) -> tuple[TextShape, tuple[Constant, ...]] | None:
    """Return the shape of a text and its different constants; None if it can have none."""
    if _MARK in text or ("(" in text and not _has_fine_expressions(text)):
        return None
    hidden = "'" in text or "--" in text or "Q{" in text
    pieces, numbers, same = [], [], []
    places: dict[Constant, int] = {}
    end = 0
    for found in (_TOKEN if hidden else _SIMPLE).finditer(text):
        group = found.lastgroup
        if group is None:
            continue
        start, stop = found.span(group)
        constant: Constant = float(found[group]) if group == "number" else found[group]
        pieces.append(text[end:start])
        numbers.append(group == "number")
        same.append(places.setdefault(constant, len(places)))
        end = stop
    if len(same) > MOST:
        return None
    pieces.append(text[end:])
    return TextShape(tuple(pieces), tuple(numbers), tuple(same)), tuple(places)


def _has_fine_expressions(text: str) -> bool:
    """Return True if each regular expression of a text is in a call of `matches`, and is correct.

    The parser does not see an expression that is taken out as a constant, so it is checked here.
    A text with `replace` or `tokenize` has no shape, and the parser checks its expressions.
    """
    if "matches" not in text and "replace" not in text and "tokenize" not in text:
        return True  # this search for words is much faster than one for calls
    calls = len(_EXPRESSIONS.findall(text))
    if not calls:
        return True
    found = [*_MATCHES.finditer(text)]
    if len(found) != calls:
        return False
    from xscl.language.regex import WrongExpression, expression  # loads RE2

    try:
        for one in found:
            expression(one["double"] or one["single"] or "", one["flags"] or "")
    except WrongExpression:
        return False
    return True


def marks(shape: TextShape, *, first: bool) -> tuple[Constant, ...]:
    """Return a value that stands out for each different constant.

    With `first` they are ascending, and before all constants that `split` takes out; else they are
    descending, and after these.  A result that is the same for both does not depend on the order.
    """
    count = len(shape.distinct)
    if first:
        return tuple(
            float(f"0.0000001{i:02}1") if number else f" \ue000{i:02}"
            for i, number in enumerate(shape.distinct)
        )
    return tuple(
        9e14 + (count - i) / 8 if number else f"\U0010fffd\ue000{count - i:02}"
        for i, number in enumerate(shape.distinct)
    )


class ShapeMemo(Generic[T, F]):
    """A function of texts, computed once for all texts of a shape; for any thread.

    `read` returns the syntax tree of a text, and `compute` the result for a tree and its text.
    Trees and results consist of frozen dataclasses, tuples and texts.  Those of one shape may
    differ in their constants only.  Constants can change the order in which conditions are printed,
    so a shape is computed twice, with `marks`, which stand for constants, in ascending and in
    descending order.  If the two results differ by more than the marks, or do not reproduce the
    first text's, every text of the shape is computed separately.  A shape is computed at its second
    text: many have one text only.
    Reading takes most of the time, so only the text with ascending marks is read.  No reader orders
    anything, so `Filler` makes the other tree of it (test_compile.py draws texts of the language).

    `form` converts a result with marks, and their `Filler`, to the function from constants to
    results.  `function` returns the result of a text without marks, perhaps a cached one.
    At most `most` shapes are kept.
    """

    def __init__(
        self,
        read: Callable[[str], Any],
        compute: Callable[[Any, str], T],
        most: int,
        form: Callable[[T, Filler], F],
        function: Callable[[str], T] | None = None,
    ) -> None:
        self._read = read
        self._compute = compute
        self._function = function or (lambda text: compute(read(text), text))
        self._most = most
        self._form = form
        # Shapes, the oldest first.  After one text a shape has its constants and its own function.
        # Later a shape has the function for all its texts, or None if there is none.
        self._known: dict[TextShape, tuple[Sequence[Constant], F] | F | None] = {}
        self._lock = threading.Lock()

    def find(self, text: str) -> tuple[F, Sequence[Constant]]:
        """Return a function from constants to the result of a text, and the constants for it.

        The constants are empty if the function is for this text only.  The oldest shapes are
        evicted.  Raises the errors of `function`.
        """
        found = split(text)
        if found is None:
            return self._alone(text), ()
        shape, constants = found
        form = self._known.get(shape, ())
        if isinstance(form, tuple):
            with self._lock:
                form = self._known.get(shape, ())
                if form == ():
                    alone = self._alone(text)
                    if len(self._known) >= self._most:
                        del self._known[next(iter(self._known))]
                    self._known[shape] = (constants, alone) if constants else alone
                    return alone, ()
                if isinstance(form, tuple):
                    form = self._known[shape] = self._learnt(shape, *form)
        if form is None:
            return self._alone(text), ()
        return form, constants

    def _alone(self, text: str) -> F:
        return self._form(self._function(text), _UNMARKED)

    def _learnt(self, shape: TextShape, constants: Sequence[Constant], whole: F) -> F | None:
        """Return the function from constants to the results of a shape.

        None if results of the shape differ by more than their constants, or cannot be computed.
        `constants` are those of the shape's first text, `whole` is the function for this text only.
        """
        first, last = marks(shape, first=True), marks(shape, first=False)
        text = shape.text(first)
        try:
            tree, fill = self._read(text), Filler(first)
            form = self._form(self._compute(tree, text), fill)
            other = self._compute(fill(tree)(last), shape.text(last))
        except (XsclError, RecursionError):
            return None
        return form if form(last) == other and form(constants) == whole(()) else None


@cache
def _arguments(kind: type) -> tuple[str, ...] | None:
    """Return the names of the arguments that make a dataclass; None for any other class."""
    if not is_dataclass(kind):
        return None
    return tuple(field.name for field in fields(kind) if field.init)


class Filler:
    """Makes functions that put constants in place of marks in trees of frozen dataclasses.

    Marks are the values that `marks` returns; they stand out among all others.

    Parts without marks are the same objects in all trees that a function makes.
    """

    def __init__(self, marked: Sequence[Constant]) -> None:
        self._marked = marked
        self._within = {_printed(mark): place for place, mark in enumerate(marked)}
        self._marks = re.compile(f"({'|'.join(map(re.escape, self._within))})")

    def __call__(self, node: object) -> Fill:
        """Return the function from constants to the tree `node` with them in place of marks."""
        fill = self._of(node) if self._marked else None
        return (lambda constants: node) if fill is None else fill

    def _of(self, node: object) -> Fill | None:
        """Return the function from constants to a part of a tree; None if it has no mark."""
        kind: Any = type(node)
        if isinstance(node, str | float):
            return self._constant(node)
        if isinstance(node, tuple):  # also a NamedTuple, whose own constructor is slow
            return self._of_parts(node, partial(tuple.__new__, kind))
        if (names := _arguments(kind)) is None:
            return None
        parts = [getattr(node, name) for name in names]
        return self._of_parts(parts, lambda values: kind(*values))

    def _constant(self, node: Constant) -> Fill | None:
        if node in self._marked:
            return itemgetter(self._marked.index(node))
        parts = self._marks.split(node) if isinstance(node, str) else []
        if len(parts) < 2:
            return None
        places = [self._within[mark] for mark in parts[1::2]]
        pattern = "%s".join(piece.replace("%", "%%") for piece in parts[::2])
        used = itemgetter(*places)
        if all(isinstance(self._marked[place], str) for place in places):
            return lambda constants: pattern % used(constants)
        return lambda constants: pattern % tuple([_printed(constants[at]) for at in places])

    def _of_parts(
        self, parts: Sequence[object], made: Callable[[Iterable[object]], object]
    ) -> Fill | None:
        found = [
            (at, self._of(part))
            for at, part in enumerate(parts)
            if part and type(part) is not Span  # many parts are empty or None
        ]
        fills = tuple((at, fill) for at, fill in found if fill is not None)
        if not fills:
            return None

        def filled(constants: Sequence[Constant]) -> object:
            values = list(parts)
            for at, fill in fills:
                values[at] = fill(constants)
            return made(values)

        def filled_once(constants: Sequence[Constant]) -> object:
            return made((*before, only(constants), *after))

        at, only = fills[0]
        before, after = tuple(parts[:at]), tuple(parts[at + 1 :])
        return filled_once if len(fills) == 1 else filled


_UNMARKED = Filler(())


def _printed(constant: Constant) -> str:
    """Return a constant as it stands in a text; a string without its quotes."""
    return constant if isinstance(constant, str) else literal(constant)
