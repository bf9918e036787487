"""The grammars of CEL, SASE and EQL for generation, and the spellings of their terminals.

They follow the docstrings of `cep_core.languages` and are ambiguous, which matters to parsers only.
Of XSCL the grammar of the package itself is used.
"""

# ruff: noqa: E501 - rules stand in one line

from __future__ import annotations

from importlib import resources

from lark import Lark

from tests.fuzz.texts import Texts
from tests.xscl.language.queries import VALID

_NAMES = (*"SSSTTU", *"nnnnvvxxs", *"abcdef", "flag", "nope", "S_1", "\u00dcber", "TRUE", "NULL")
_LITERALS = (
    *("0", "1", "2", "3", "1.5", "2.0", "1e2", "100", "007", "1e308"),
    *("'a'", "''", "'it''s'", '"b"', "\u2018c\u2019"),
    *("1 s", "5 s", "2 min", "1 h", "0 s", "0.5 s", "1 week", "9999999 weeks"),
)
_STREAMS = (
    *("S", "S", "S", "S", "S", "T", "T", "T", "T", "U", "U"),
    *(
        "AT '0 9 * * MON'",
        "AT '*/5 1-9,22 L * 1#2' ZONE 'Asia/Kolkata'",
        "at '0 25 * * *'",
        "AT ''",
    ),
)
_DURATIONS = ("1 s", "5 s", "10 s", "2 min", "1 h", "3", "0", "0 s", "1.5 s", "3 ms", "1e3 s")
_FORMULA = """
formula: conjunction ("OR" conjunction)*
conjunction: negation ("AND" negation)*
negation: "NOT" negation | comparison | comparison
comparison: sum | sum COMPARE sum | sum COMPARE sum | sum COMPARE sum | sum COMPARE sum COMPARE sum
    | sum "IS" "NULL" | sum "IS" "NOT" "NULL" | sum "NOT"? "IN" "(" sum ("," sum)* ")"
    | sum "NOT"? "LIKE" sum | sum "NOT"? "BETWEEN" sum "AND" sum
sum: product | product | product (SIGN product)+
product: signed | signed | signed (FACTOR signed)+
signed: atom | atom | atom | "-" signed
call: FUNCTION "(" formula ("," formula)? ")" | case
case: "CASE" ("WHEN" formula "THEN" sum)+ ("ELSE" sum)? "END"
COMPARE: "<compare>"
SIGN: "<sign>"
FACTOR: "<factor>"
FUNCTION: "<function>"
NAME: "<name>"
LITERAL: "<literal>"
DURATION: "<duration>"
"""
_POOLS = {
    "COMPARE": ("=", "=", "<", "<=", ">", ">=", "!=", "<>", "==", "\u2264"),
    "SIGN": ("+", "-"),
    "FACTOR": ("*", "/", "%"),
    "FUNCTION": (
        *("abs", "abs", "floor", "length", "lower", "upper", "contains", "starts_with"),
        *("string", "round", "COALESCE", "coalesce", "like"),
        *("COUNT", "SUM", "AVG", "MIN", "MAX", "ARGMAX", "nope"),
    ),
    "NAME": _NAMES,
    "LITERAL": _LITERALS,
    "DURATION": _DURATIONS,
}
CEL = """
start: query
query: "SELECT" items "FROM" stream ends? publish? | "FROM" stream | "SELECT" items "FROM" stream
items: "*" | item ("," item)*
item: NAME | NAME | formula "AS" NAME | aggregate "AS" NAME | aggregate
aggregate: AGGREGATE "(" formula ("," formula)? ")" | "COUNT" "(" "*" ")"
ends: ("GROUP" "BY" NAME ("," NAME)*)? window
window: "WINDOW" DURATION | "AT" "INSTANT"
publish: "PUBLISH" NAME
stream: operand | operand | operand (operator)+
operator: "NEXT" braces? operand
    | "FOLD" "{" formula? "," formula? ("," formula "AS" NAME)* "}" operand
    | "JOIN" "{" formula? "," DURATION "}" operand
    | "UNION" operand
operand: STREAM | STREAM | "FILTER" braces operand | "(" stream ")" | "(" query ")"
braces: "{" formula? "}"
atom: NAME | NAME | DECORATED | DECORATED | LITERAL | LITERAL | "(" formula ")" | call | "DUR"
AGGREGATE: "<aggregate>"
STREAM: "<stream>"
DECORATED: "<decorated>"
"""
SASE = """
start: "EVENT" pattern where? within? returned? publish?
    | "EVENT" pattern "NONSTRICT"? where? within? policy? returned? publish?
pattern: "SEQ" "(" component ("," component)* ")" | "SEQ" "(" component ("," component)+ ")"
    | component | "SEQ" "(" part ("," part)+ ")" | part
part: step | MARK step | "(" step ("," step)* ")" TIMES? | "(" step OR part ")"
    | "(" types VARIABLE ("AND" types NAME)+ ("WITHIN" DURATION)? ")" | "!" types NAME
step: types VARIABLE | types TIMES PACE? MARK? VARIABLE ("UNTIL" types NAME)?
policy: "AFTER" "MATCH" POLICY
component: types NAME? | types NAME | "!" types NAME | "!" "(" types NAME ")"
    | "!" "(" types NAME ")" "FOR" DURATION
    | types "+" NAME "[" "]" | types "+"
types: STREAM | STREAM | STREAM | "ANY" "(" STREAM ("," STREAM)* ")"
where: "WHERE" formula | "WHERE" formula | STRATEGY "(" VARIABLE ("," VARIABLE)* ")" "{" formula? "}"
within: "WITHIN" DURATION | "WITHIN" "<=" DURATION
returned: "RETURN" items
items: "*" | item ("," item)*
item: field | field | formula "AS" NAME
publish: "PUBLISH" NAME
atom: field | field | field | field | LITERAL | LITERAL | "(" formula ")" | call | equal
    | aggregate | "DUR"
equal: "[" NAME "]" | "[" NAME "]" | "[" NAME "=" formula "]" | "[" NAME "," NAME "]"
field: NAME | VARIABLE "." NAME | VARIABLE "." NAME | VARIABLE INDEX "." NAME
aggregate: FUNCTION "(" VARIABLE INDEX "." NAME ")" | "COUNT" "(" VARIABLE INDEX ")"
    | "LIST" "(" VARIABLE INDEX "." NAME ")" | "time" "(" VARIABLE INDEX ")"
MARK: "<mark>"
TIMES: "<times>"
PACE: "<pace>"
OR: "<or>"
POLICY: "<policy>"
STREAM: "<stream>"
VARIABLE: "<variable>"
INDEX: "<index>"
STRATEGY: "<strategy>"
"""
EQL = """
start: "SELECT" selection "FROM" pattern where? publish?
    | "SELECT" selection "FROM" whole "NONSTRICT"? where? span? policy? publish?
whole: part (";" part)* | part ("|" part)*
part: step | MARK step | "(" whole ")" TIMES? | "(" single ("AND" single)+ span? ")" | absent
step: single TIMES PACE? MARK? ("UNTIL" single)? | single TIMES | single
single: STREAM ALIAS | STREAM ALIAS | "ANY" "(" STREAM "," STREAM ")" ALIAS
absent: "!" single | "!" "(" single ")" | "!" single "FOR" DURATION | "every" part
span: "WITHIN" DURATION | "WITHIN" "<=" DURATION
policy: "AFTER" "MATCH" POLICY
selection: "*" | "*" | item ("," item)*
item: field | field | field "AS" NAME | formula "AS" NAME
pattern: exception ("|" exception)*
exception: next | next | next ("\\\\" next)+
next: postfix (";" postfix)*
postfix: operand | operand | operand "+" | operand "@" DURATION | operand "+" "@" DURATION
operand: STREAM ALIAS | STREAM ALIAS | STREAM | "(" pattern ")"
where: "WHERE" qualification ("," qualification)*
qualification: formula | "FILTER" "(" formula ")" | within | "FILTER" "(" within ")"
within: "(" ALIAS "," ALIAS ")" "OCCURS" "WITHIN" DURATION
publish: "PUBLISH" NAME
atom: field | field | field | field | LITERAL | LITERAL | "(" formula ")" | call | contains | "DUR"
contains: field "CONTAINS" LITERAL
field: NAME | ALIAS "." NAME | ALIAS "." NAME | ALIAS "." NAME
    | "PREV" "(" ALIAS "." NAME ")" | "ALL" "(" ALIAS "." NAME ")" | ALIAS INDEX "." NAME
STREAM: "<stream>"
ALIAS: "<alias>"
INDEX: "<index>"
MARK: "<mark>"
TIMES: "<times>"
PACE: "<pace>"
POLICY: "<policy>"
"""
_OF_PATTERNS = {
    "INDEX": (
        *("[i]", "[i-1]", "[1]", "[last]", "[]", "[..i-1]", "[2]", "[ i - 1 ]", ""),
        *("[last-1]", "[0]"),
    ),
    "MARK": ("any", "next", "nearest", "strict", "partition", "NEXT"),
    "TIMES": (*"?*+", "{2}", "{1,2}", "{0,2}", "{1,}", "{3,1}", "{0}", "{999}"),
    "PACE": ("greedy", "reluctant", "longest", "", ""),
    "POLICY": (
        *("SKIP TO NEXT", "SKIP PAST LAST", "FIRST ONLY", "RESTART", "NEWEST"),
        *("SKIP TO FIRST a", "SKIP TO LAST b", "SKIP"),
    ),
}
_OWN = {
    "cel": {
        "AGGREGATE": ("COUNT", "SUM", "AVG", "MIN", "MAX", "ARGMAX", "ARGMIN", "abs"),
        "STREAM": (*_STREAMS, "nope"),
        "DECORATED": ("$1.n", "$2.n", "$1.n_1", "$2.x", "$.n", "$1.nope", "$2.s", "$.c"),
    },
    "sase": {
        "STREAM": (*_STREAMS, "nope", "A-B"),
        "VARIABLE": (*"aabbcd", "a[]", "b[]", "S", "T"),
        **_OF_PATTERNS,
        "OR": ("|", "OR"),
        "STRATEGY": tuple(
            f"WHERE {word}"
            for word in (
                *("skip_till_any_match", "skip_till_next_match", "strict_contiguity"),
                *("partition_contiguity", "skip_till"),
            )
        ),
    },
    "eql": {
        **_OF_PATTERNS,
        "STREAM": (*_STREAMS, "nope"),
        "ALIAS": (*"AABBCD", "S", "T", "a"),
    },
}
_SAMPLES = {
    "cel": (
        "SELECT «items» FROM «stream»",
        "SELECT n, s FROM FILTER{«formula»}(S)",
        "SELECT «formula» AS k FROM S",
        "SELECT * FROM S NEXT{$1.n = $2.n AND «formula»} S",
        "SELECT * FROM S FOLD{$2.n = $.n, «formula», $.c + 1 AS c} S",
        "SELECT * FROM (SELECT *, 0 AS c FROM S) FOLD{«formula», DUR < 5 s, «formula» AS c} S",
        "SELECT * FROM S JOIN{$1.n = $2.n OR «formula», 5 s} T PUBLISH R",
        "SELECT n, AVG(v) AS m, COUNT(*) AS k FROM «stream» GROUP BY n WINDOW 5 s",
        "SELECT MAX(v) + 1 AS m, «aggregate» AS k FROM S UNION S AT INSTANT",
        "SELECT n FROM (FROM S NEXT{} T) NEXT{$1.n < $2.n} FILTER{«formula»} S",
    ),
    "sase": (
        "EVENT SEQ(S a, T b) WHERE a.n = b.n AND «formula» WITHIN 5 s RETURN a.n, «formula» AS y",
        "EVENT SEQ(S a, !(T b), S c) WHERE [n] AND «formula» WITHIN 10 s",
        "EVENT SEQ(S a, !(T b), S c) WHERE [n] AND b.x > «atom» WITHIN 10 s RETURN *",
        "EVENT SEQ(!(T b), S a, «component», !(S d)) WHERE [n] WITHIN 10 s RETURN a.n",
        "EVENT SEQ(S a, S+ b[], T c) WHERE skip_till_next_match(a, b[], c) "
        "{ [n] AND b[i].v > b[i-1].v AND «formula» } WITHIN 1 h",
        "EVENT SEQ(S a, S+ b[]) WHERE partition_contiguity(a, b[]) { [n] } RETURN a.n, "
        "COUNT(b[]) AS k, «formula» AS l PUBLISH R",
        "EVENT SEQ(ANY(S, T) a, S b) WHERE [n = 1] OR «formula»",
        "EVENT S a WHERE n > 1 AND «formula» RETURN «items»",
        "EVENT SEQ(S a, next S{1,2} greedy b[] UNTIL U z, T c) WHERE [n] AND «formula» WITHIN 5 s",
        "EVENT SEQ((S a OR !T b), (S c, T d){2} strict) WHERE «formula» WITHIN 9 s «policy»",
        "EVENT (S a AND T b AND !U c WITHIN 5 s) WHERE «formula» WITHIN <= 9 s RETURN «items»",
        "EVENT S+ b[] WHERE strict_contiguity(b[]) { b[i].n = 1 AND «formula» }",
    ),
    "eql": (
        "SELECT «selection» FROM (S A | T B)+",
        "SELECT * FROM S A ; T B WHERE FILTER(A.n = B.n), «formula»",
        "SELECT A.n, «field» AS f FROM S A ; (S B)+ WHERE B.v > PREV(B.v), «formula» PUBLISH R",
        "SELECT * FROM (S A ; S B) \\ T C WHERE C.n = A.n, (A, B) OCCURS WITHIN 5 s",
        "SELECT «item» FROM (S A ; T B)@5 s \\ S C WHERE «qualification»",
        "SELECT * FROM (S A | S B) ; (T C | S D)+ WHERE FILTER(«formula»)",
        "SELECT * FROM ((S A ; T B)+ | S C) \\ U D WHERE «qualification», «qualification»",
        "SELECT A.n + 1 AS m FROM S A WHERE s = 'a' OR «formula»",
        "SELECT * FROM «pattern»",
        "SELECT ALL(B.n) AS r FROM S A ; next S B{1,2} greedy UNTIL U Z ; T C WHERE «formula» WITHIN 5 s",
        "SELECT «selection» FROM S A ; (T B ; S C)* strict WHERE FILTER(«formula»), PREV(B.n) < B.n",
        "SELECT * FROM (S A AND T B AND !U Z WITHIN 5 s) WHERE «qualification» WITHIN <= 9 s «policy»",
        "SELECT A.n, COUNT(B[]) AS k FROM S A ; !U Z ; S B+ reluctant WHERE B[1].n = A.n, «formula»",
        "SELECT * FROM ANY(S, T) A ; S B? NONSTRICT WHERE [n], (A, B) OCCURS WITHIN 5 s",
    ),
}
_GRAMMARS = {"cel": CEL, "sase": SASE, "eql": EQL}

_XSCL = {
    "NAME": (
        *("S", "S", "S", "T", "R", "item", "item", "title", "a", "b", "k", "n", "not", "xs"),
        *("x", "x", "x", "y", "y", "y", "z", "x'", "as", "from", "dc", "p", "\u00e9mile"),
        *("contains", "starts-with", "lower-case", "string", "number", "string-length", "text"),
        *("min", "h", "d", "s", "w", "week", "canonical-url", "normalize-space"),
    ),
    "STRING": ("'a'", '"b"', "''", '"urn:u"', "'3'", '"it\'s"', "'\u00e9'"),
    "NUMBER": ("0", "1", "3", "10", "1.5", ".5", "2.", "007", "99999999999999999999"),
    "COMPARE": ("=", "=", "=", "!=", "<", "<=", ">", ">="),
    "DECORATED": ("$1.x", "$2.y", "$.n", "$0.n", "$2.x", "$1.nope"),
    "BRACED": ("Q{urn:u}", "Q{}", "Q{http://www.w3.org/2005/Atom}"),
    "CONSTRUCTOR": (
        *("<hit/>", "<hit>{x}</hit>", '<hit by="{x}"><t>{string(y)}</t>{y/title}</hit>'),
        *('<p:a xmlns:p="urn:u">{x}</p:a>', "<a>", "<a>{</a>", "<a>{x + 1}</a>", "<a></b>"),
        *("<a>&lt;{{}}</a>", "<a b='{x}' b=''/>", "<dc:a/>", "<xml:a/>", "<a>&nope;</a>"),
    ),
    "MINUS": ("-",),
    "INSTANTS": (
        *("AT '0 9 * * MON'", "at '*/5 1-9,22 L * 1#2' ZONE 'Asia/Kolkata'"),
        *('AT "0 25 * * *"', "AT ''", "AT '0 9 * * *' zone 'Nowhere'"),
    ),
    **{word: (word, word.lower()) for word in ("SELECT", "DISTINCT", "FROM", "PUBLISH", "JOIN")},
    **{word: (word,) for word in ("NAMESPACE", "FOLLOWED", "BY", "NEXT", "FOLD", "ELSE", "AS")},
    **{word: (word,) for word in ("AND", "OR", "NOT", "INF", "TO", "LEFT", "RIGHT")},
    **{word: (word.lower(),) for word in ("DIV", "MOD")},
}


_XSCL_SAMPLES = (
    "S//item[«formula»]",
    "S//item->x[«formula»][./k->y]",
    "S«steps»->x JOIN{x = y, 1 d} S//*->y",
    "S//a->x[./k->z] JOIN{«formula», 1 d} S//b->y",
    "S//a->x FOLLOWED BY{x = y AND «negation», «window»} S//b->y",
    "S//a->x FOLLOWED BY{«negation», 1 d} S//b->y FOLLOWED BY{x = z AND «formula», 1 d} S//k->z",
    "S//a->x NOT FOLLOWED BY{«formula», 1 d} S//b->y",
    "S//a->x JOIN{«formula», -1 h TO 1 d} S//b->y ELSE",
    "S//a->x JOIN{time(y) - time(x) > «sum», «window»} S//b->y ELSE LEFT",
    "S//a->x NEXT{x = y AND «negation»} S//b->y",
    "S//a->x FOLD{$2.x = $.x, «formula», $.n + 1 AS n, «sum» AS m} S//a->x",
    "«select» S//a->x JOIN{x=y, 1 d} S//b->y PUBLISH R",
    "SELECT DISTINCT * FROM S//a->x JOIN{x=y, 1 d} «primary»",
    "«expression» JOIN{x = y, 1 d} S//b->y",
    "AT '0 9 * * MON'->x NOT FOLLOWED BY{«negation», 1 d} S//b->y",
    "S//a->x FOLLOWED BY{«formula», 1 d} AT '*/5 * * * *'->y ELSE",
    "SELECT <hit at='{x}'/> FROM AT '0 9 * * MON'->x FOLD{$2.y != 'a', «formula»} «block»",
)


def event_texts(language: str) -> Texts:
    """Return the texts of a language of events, over the streams that `tests.fuzz.events` has."""
    grammar = Lark(_GRAMMARS[language] + _FORMULA, parser="earley")
    return Texts(grammar, {**_POOLS, **_OWN[language]}, _SAMPLES[language])


def xscl_texts() -> Texts:
    """Return the texts of XSCL."""
    source = resources.files("xscl.language").joinpath("xscl.lark").read_text("utf-8")
    grammar = Lark(source, parser="lalr", start="start", maybe_placeholders=False)
    return Texts(grammar, _XSCL, (*_XSCL_SAMPLES, *VALID.values()))
