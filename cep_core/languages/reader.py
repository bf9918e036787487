"""A reader of tokens: what is next, and what all event languages write alike.

Alike are lists, durations, the names of results, PUBLISH and the end of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from cep_core.algebra import Stream
from cep_core.algebra.expressions import Parameter
from cep_core.errors import Extent, QueryError
from cep_core.events import CALENDAR_SCHEMA
from cep_core.languages.tokens import LanguageToken

MOST = 100  # operators and parentheses that may be inside one another, in one expression
MOST_ITEMS = 1_000  # of a list, such as that of SELECT: several passes compare each with all
_CLAUSES = ("AND", "OR", "NONSTRICT", "AFTER")  # what may follow a number without a unit
NO_EVENT = "an event that does not occur is !(B b) in SASE, !s B in EQL"
T = TypeVar("T")


class TokenReader:
    """A reader at a position in a sequence of tokens, of which the last one marks the end."""

    def __init__(
        self, text: str, tokens: Sequence[LanguageToken], keywords: Collection[str] = ()
    ) -> None:
        """``keywords`` are the words that are no names."""
        self.text = text
        self.tokens = tokens
        self.keywords = keywords
        self.at = 0
        self.depth = 0
        self.published: list[LanguageToken] = []  # names that PUBLISH has given

    @property
    def token(self) -> LanguageToken:
        """The next token."""
        return self.tokens[self.at]

    @property
    def consumed(self) -> Extent:
        """The span from the first token up to the next one."""
        return Extent(self.tokens[0].start, self.token.start)

    def is_word(self, *words: str) -> bool:
        """Return True if one of the keywords is next."""
        return self.tokens[self.at].word in words

    def is_sign(self, *signs: str) -> bool:
        """Return True if one of the signs is next."""
        token = self.tokens[self.at]
        return token.text in signs and token.kind == "sign"

    def next(self) -> LanguageToken:
        """Consume the next token and return it; the end remains next."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def take_word(self, word: str) -> bool:
        """Consume a keyword if it is next; return True if so."""
        if self.tokens[self.at].word == word:
            self.at += 1
            return True
        return False

    def take_sign(self, sign: str) -> bool:
        """Consume a sign if it is next; return True if so."""
        token = self.tokens[self.at]
        if token.text == sign and token.kind == "sign":
            self.at += 1
            return True
        return False

    def expect_sign(self, sign: str, why: str = "") -> LanguageToken:
        """Consume a sign; raise QueryError if another token is next.

        ``why`` follows the sign in the message of the error.
        """
        if not self.is_sign(sign):
            raise self.expected(f"{sign!r}{why}")
        return self.next()

    def expect_word(self, word: str, what: str = "") -> LanguageToken:
        """Consume a keyword; raise QueryError if another token is next.

        The error says that ``what`` is expected, by default the keyword.
        """
        if not self.is_word(word):
            raise self.expected(what or word)
        return self.next()

    def is_name(self) -> bool:
        """Return True if a name that is no keyword is next."""
        token = self.tokens[self.at]
        return token.kind == "name" and token.word not in self.keywords

    def expect_name(self, what: str, hint: str | None = None) -> LanguageToken:
        """Consume a name that is no keyword; else raise QueryError that ``what`` is expected."""
        if self.token.text.upper() == "NOT":
            hint = NO_EVENT
        elif self.token.word in self.keywords:
            hint = hint or f"{self.token.text} is a word of the language: take another name"
        if not self.is_name():
            raise self.expected(what, hint)
        return self.next()

    def expect_attribute(self, known: Collection[str] = ()) -> LanguageToken:
        """Consume a name of an attribute, also a keyword if it is one of the known names."""
        if self.token.text in known:
            return self.next()
        return self.expect_name("an attribute")

    def nested(self, name: LanguageToken) -> LanguageToken:
        """Read the rest of an attribute's name: `a.b.c`, of a map in a map, is the name a_b_c."""
        while self.is_sign(".") and self.tokens[self.at + 1].kind == "name":
            self.next()
            more = self.next()
            name = name._replace(text=f"{name.text}_{more.text}", end=more.end)
        return name

    def expect_end(self, what: str) -> None:
        """Raise QueryError, that ``what`` is expected, unless the tokens are at their end."""
        if self.token.kind != "end":
            raise self.expected(what)

    def expected(self, what: str, hint: str | None = None) -> QueryError:
        """Return the error that ``what`` is expected where another token is next."""
        shown = repr(self.token.text) if self.token.text else "the end"
        hint = hint or self._meant()
        return self.fault(f"{what} is expected here, not {shown}", self.token.span, hint)

    def _meant(self) -> str | None:
        """Return a hint for the spelling of another language, None if nothing is known."""
        token, after = self.token, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        before = self.tokens[self.at - 1] if self.at else None
        if token.text + after.text == "->" or token.text.lower() in ("followed", "then"):
            return "one event after another is SEQ(a, b) in SASE, a ; b in EQL, a NEXT b in CEL"
        if before is not None and before.text + token.text == "=>":
            return "at least is >="
        if before is not None and before.word == "WHERE" and token.text in (";", "|", ",", ")"):
            return f"{before.text} begins the conditions: as a name take another word"
        return None

    def fault(self, message: str, span: Extent, hint: str | None = None) -> QueryError:
        """Return a QueryError that marks ``span`` in the text of the query."""
        return QueryError(message, self.text, span, hint=hint)

    def require_few(self, items: int) -> None:
        """Raise QueryError if a list has more than `MOST_ITEMS` items."""
        if items > MOST_ITEMS:
            raise self.fault(f"a list has at most {MOST_ITEMS} items", self.token.span)

    def deeper(self) -> None:
        """Add an operator or parenthesis to the nesting; raise QueryError above `MOST` levels."""
        self.depth += 1
        if self.depth > MOST:
            message = f"there are more than {MOST} operators and parentheses inside one another"
            raise self.fault(message, self.token.span)

    # -- what languages write alike --------------------------------------------------------

    def listed(self, read: Callable[[], T]) -> list[T]:
        """Read at least one item, and others after commas; raise QueryError above `MOST_ITEMS`."""
        items = [read()]
        while self.take_sign(","):
            self.require_few(len(items) + 1)
            items.append(read())
        return items

    def parts(self, last: str) -> list[TokenReader]:
        """Skip what commas separate, up to the keyword ``last`` or a brace, which is not consumed.

        Return a reader of each part, to be read when the names behind the parts are known.
        """
        found: list[TokenReader] = []
        start, inside = self.at, 0  # parentheses
        while True:
            token = self.tokens[self.at]
            inside += (token.text == "(") - (token.text == ")")
            after = self.tokens[self.at + 1] if token.kind == "name" else token
            named = self.at == start and (after.text == "," or after.word == last)  # FROM as a name
            ends = token.kind == "end" or token.text in ("{", "}")
            ends = ends or (token.word == last and not named)
            separated = token.text == "," and not inside
            if ends or separated:
                end = token._replace(kind="end", word="")
                own = [*self.tokens[start : self.at], end]
                found.append(TokenReader(self.text, own, self.keywords))
            if ends:
                return found
            self.at += 1
            if separated:
                start = self.at
                self.require_few(len(found) + 1)

    def duration(
        self, example: str, *, what: str = "a duration", bare: bool = True, zero: str | None = None
    ) -> LanguageToken:
        """Consume a duration in ticks; raise QueryError if another token is next.

        ``bare`` accepts a number of ticks without a unit.  With a hint ``zero``, a duration of no
        tick is refused as well.  The error says that ``what`` is expected, such as ``example``.
        """
        token = self.token
        if type(token.value) is not int or (token.text.isdigit() and not bare):
            raise self.expected(f"{what}, such as {example},")
        if zero is not None and not token.value:
            raise self.fault("a window has at least 1 tick, not 0", token.span, zero)
        self.next()
        if token.text.isdigit() and self.is_name() and not self.is_word(*_CLAUSES):
            unit = self.token
            hint = "units are us, ms, s, min, h, days and weeks"
            raise self.fault(f"there is no unit {unit.text}", unit.span, hint)
        return token

    def calendar(self) -> Stream | None:
        """Consume a calendar, AT 'cron expression' [ZONE 'zone'], if it is next."""
        if self.token.kind != "calendar":
            return None
        from cep_core.algebra.calendars import calendar

        (text, at), *zones = self.next().quoted()
        if not zones and self.is_word("ZONE", "IN"):
            raise self.fault(
                "a time zone is a text", self.token.span, "such as ZONE 'Europe/Berlin'"
            )
        zone, zone_at = zones[0] if zones else ("UTC", at)
        found = calendar(text, zone, at, zone_at)
        return Stream(found.name, CALENDAR_SCHEMA)

    def result_name(self, default: str | None) -> str:
        """Return the name behind AS, or the default; raise QueryError if there is neither."""
        if self.take_word("AS"):
            return self.expect_name("a name").text
        if default is None:
            raise self.expected("AS name (an expression needs one)")
        return default

    def publication(self) -> str | None:
        """Consume PUBLISH and a name; return the name, None without PUBLISH."""
        if not self.take_word("PUBLISH"):
            return None
        self.published.append(self.expect_name("the name of a stream"))
        return self.published[-1].text


def parameter(literal: LanguageToken) -> Parameter:
    """Return the parameter that stands for a literal."""
    return Parameter(literal.literal, type(literal.value), span=literal.span)
