"""Random texts of a language, well-formed ones and damaged ones, from its grammar.

The grammar is lark's, so that a construct added to it is tried without a change here.  `Texts`
derives token lists from its rules, with spellings drawn from a pool for each terminal, and applies
mutations at the level of tokens.  Most derivations begin with a sample, a valid text in which
`«rule»` stands for a derived piece: few random texts have names that go together.  All choices come
from one `random.Random`, so that a seed names a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

from lark import Lark
from lark.grammar import NonTerminal, Symbol

Tokens: TypeAlias = list[str]
Pools: TypeAlias = Mapping[str, Sequence[str]]

DEPTH = 25
"""Levels of rules after which the shortest alternative is taken."""
NESTED = (2, 30, 99, 101, 400, 3_000)
"""How often a repeated or nested piece is repeated."""
ODD = (
    *("\0", "\x1b", "\ufeff", "\u2028", "\u00a0", "\ud7ff", "\U0001f600", "e\u0301", "\u017f"),
    *("'", '"', "\u201c", "\u2019", "\\", "`", "#", "$", "$1.", "{", "}", "[", "]", "(", ")"),
    *("<", "</", "/>", "&", ";", ",", "..", "::", "-", "--", "/*", "*/", "%", "^", "~", "?", "!"),
    *("0", "-1", "1e309", "0.0000001", "9" * 30, "9" * 401, "1e-400", "0x1", "1_000", "\u0663"),
    *("NaN", "INF", "null", "TRUE", "__class__", "\u00c4\u00f6", "\u00bd", "\u2460", "\u0000"),
)
"""Pieces that stand in no grammar, or seldom where they should."""
_PIECE = re.compile(r"""«\w+»|'[^']*'|"[^"]*"|\w+|->|//|<=|>=|!=|<>|\s+|.""", re.DOTALL)


class Texts:
    """Texts of one grammar; `pools` has the spellings of each terminal that is no fixed string."""

    def __init__(self, grammar: Lark, pools: Pools, samples: Sequence[str]) -> None:
        self._samples = [_PIECE.findall(text) for text in samples]
        rules: dict[Symbol, list[list[Symbol]]] = {}
        for rule in grammar.rules:
            rules.setdefault(rule.origin, []).append(list(rule.expansion))
        self._spellings: dict[str, Sequence[str]] = {
            one.name: pools.get(one.name) or (one.pattern.value,) for one in grammar.terminals
        }
        unknown = pools.keys() - self._spellings.keys()
        assert not unknown, f"no terminals of the grammar: {unknown}"
        self._expansions = _weighted(rules)
        self._words = sorted({word for words in self._spellings.values() for word in words})

    def well_formed(self, random: Random) -> Tokens:
        """Derive the tokens of a text from a sample or from the start of the grammar."""
        found: Tokens = []
        for piece in random.choice(self._samples) if random.random() < 0.8 else ["«start»"]:
            if piece.startswith("«"):
                self._derive(random, NonTerminal(piece[1:-1]), random.randrange(4, DEPTH), found)
            else:
                found.append(piece)
        return found

    def damaged(self, random: Random) -> Tokens:
        """Return the tokens of a derived text after one to four mutations."""
        tokens = self.well_formed(random)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
            tokens = random.choice(_MUTATIONS)(random, list(tokens), self._words) or ["x"]
        return tokens

    def text(self, random: Random) -> str:
        """Return a text: derived, damaged or, rarely, nested or long beyond reason."""
        kind = random.random()
        if kind < 0.45:
            return joined(random, self.well_formed(random))
        if kind < 0.98:
            return joined(random, self.damaged(random))
        return joined(random, _excessive(random, self.damaged(random)))

    def _derive(self, random: Random, symbol: Symbol, budget: int, into: Tokens) -> None:
        if not isinstance(symbol, NonTerminal):
            into.append(random.choice(self._spellings[symbol.name]))
            return
        least, weights, expansions = self._expansions[symbol]
        if budget <= 0 or random.random() < 0.4:
            expansion = random.choice(least)
        else:
            (expansion,) = random.choices(expansions, weights)
        for part in expansion:
            if into and not isinstance(part, NonTerminal):
                into.append(" ")
            self._derive(random, part, budget - 1, into)


def joined(random: Random, tokens: Sequence[str]) -> str:
    """Return tokens as a text; now and then other blanks stand between them, or none."""
    blank = random.choice((" ",) * 12 + ("\n", "", "\t", "\u00a0", " -- c\n", "/* c */"))
    return "".join(tokens if blank == " " else [blank if one == " " else one for one in tokens])


def smallest(text: str, fails: Callable[[str], bool]) -> str:
    """Return a text from which no piece can be left out so that it still fails."""
    pieces = _PIECE.findall(text)
    size = len(pieces) // 2
    while size:
        at = 0
        while at < len(pieces):
            shorter = pieces[:at] + pieces[at + size :]
            if fails("".join(shorter)):
                pieces = shorter
            else:
                at += size
        size //= 2
    return "".join(pieces)


class _Expansions(NamedTuple):
    """Alternatives of a nonterminal: the shortest ones, and all with their weights."""

    least: list[list[Symbol]]
    weights: list[float]
    all: list[list[Symbol]]


def _weighted(rules: Mapping[Symbol, list[list[Symbol]]]) -> dict[Symbol, _Expansions]:
    """Return the alternatives of each nonterminal, the longer ones the less likely."""
    heights: dict[Symbol, int] = {}

    def height(expansion: Sequence[Symbol]) -> int | None:
        if any(isinstance(part, NonTerminal) and part not in heights for part in expansion):
            return None
        return 1 + max((heights.get(part, 0) for part in expansion), default=0)

    while len(heights) < len(rules):
        for symbol, expansions in rules.items():
            known = [found for one in expansions if (found := height(one)) is not None]
            if known:
                heights[symbol] = min(known)
    return {
        symbol: _Expansions(
            [one for one in expansions if height(one) == heights[symbol]],
            [1 / (1 + len(one)) for one in expansions],
            expansions,
        )
        for symbol, expansions in rules.items()
    }


# -- mutations -----------------------------------------------------------------------------


def _drop(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    at = random.randrange(len(tokens))
    del tokens[at : at + random.choice((1, 1, 1, 2, 3, 8))]
    return tokens


def _double(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    at = random.randrange(len(tokens))
    piece = tokens[at : at + random.choice((1, 1, 2, 4, 10))]
    return tokens[:at] + piece + tokens[at:]


def _swap(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    one, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[one], tokens[other] = tokens[other], tokens[one]
    return tokens


def _replace(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    tokens[random.randrange(len(tokens))] = random.choice(words)
    return tokens


def _copy(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    tokens[random.randrange(len(tokens))] = random.choice(tokens)
    return tokens


def _insert(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    tokens.insert(random.randrange(len(tokens) + 1), random.choice(words))
    return tokens


def _odd(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    tokens.insert(random.randrange(len(tokens) + 1), random.choice(ODD))
    return tokens


def _cut(random: Random, tokens: Tokens, words: Sequence[str]) -> Tokens:
    return tokens[: random.randrange(len(tokens))]


_MUTATIONS = (_drop, _drop, _double, _swap, _replace, _replace, _copy, _insert, _odd, _cut)


def _excessive(random: Random, tokens: Tokens) -> Tokens:
    """Return tokens in which a piece is repeated or nested many times."""
    begin = random.randrange(len(tokens))
    end = min(len(tokens), begin + random.choice((1, 2, 3, 5, 9)))
    times, piece = random.choice(NESTED), tokens[begin:end]
    match random.randrange(3):
        case 0:
            return tokens[:begin] + piece * times + tokens[end:]
        case 1:
            return [*tokens[:begin], *["("] * times, *piece, *[")"] * times, *tokens[end:]]
        case _:
            name = random.choice(piece) * times
            return [*tokens[:begin], name, *tokens[end:]]
