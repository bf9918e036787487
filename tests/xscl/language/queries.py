"""Valid queries: Table 6.2 of Hong 2009, and one for each construct of the language."""

TABLE_6_2 = {
    "Q1": "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 10 min}"
    " S//blog->x4[./author->x5][./title->x6]",
    "Q2": "S//book->x1[./author->x2][./category->x7] FOLLOWED BY {x2=x5 AND x7=x8, 30 d}"
    " S//blog->x4[./author->x5][./category->x8]",
    "Q3": "S//blog->x4[./author->x5][./title->x6] FOLLOWED BY {x5=x5' AND x6=x6', 5}"
    " S//blog->x4'[./author->x5'][./title->x6']",
}
PAIR = "S//a->x {} S//b->y"
CONSTRUCTS = {
    "a stream alone": "blog",
    "select all": "SELECT * FROM blog",
    "a calendar": "AT '0 9 * * MON' ZONE 'Europe/Berlin'->t NOT FOLLOWED BY{9 h} S//a",
    "publish": "SELECT DISTINCT * FROM S//a PUBLISH T",
    "keywords as names": "S//from/next//join[./select][./as->as]",
    "keywords in any case": "select distinct * from S//a publish T",
    "not as a name": "S//not[not][./a and not or ./b]",
    "as": "S//item AS i",
    "nested as": "S//a[./b AS x]",
    "the root": "S -> x",
    "joined roots": "S->x JOIN{x=y, 1 d} S AS y",
    "attributes": "S//a/@b",
    "wildcards": "S//*/*:b[@*][dc:*]",
    "braced names": "S//Q{urn:u}b/Q{}a[./Q{urn:u}*]",
    "namespace": 'NAMESPACE p = "urn:u" S//p:a[./p:*]',
    "bindings": "S//a->x[./b->y[.//c->z]][./d and ./e->w]",
    "and or not": "S//a[./b and (./c or not(./d)) or ./e]",
    "constant left": "S//a[5 <= ./price]['x' = .]",
    "numbers": "S//a[. > -5][. < .5][. != 1.50]",
    "text": "S//a[text() = 'x'][.//text() != \"it's\"][./b/text() = 'y']",
    "functions": "S//a[contains(., 'x') or starts-with(./@b, 'y')]",
    "unicode": "S//\u00e9mile->\u03b1[./\u0939\u093f\u0928\u094d\u0926\u0940][./e\u0301]",
    "join": PAIR.format("JOIN{x=y, 0}"),
    "window left out": PAIR.format("JOIN{x=y}"),
    "predicate left out": PAIR.format("JOIN{, 1.5 h}"),
    "nothing in braces": PAIR.format("JOIN"),
    "infinite": PAIR.format("FOLLOWED BY{x=y, INF}"),
    "predicates": PAIR.format(
        "JOIN{x/a=y//b/@c AND NOT (x!=y OR lower-case(x)='a') AND contains(y, 'z'), 2 w}"
    ),
    "arithmetic": PAIR.format("JOIN{x + 1 * 2 - y div (3 mod 2) < -4, 250 ms}"),
    "next": PAIR.format("NEXT{x=y}"),
    "fold": PAIR.format("FOLD{$2.n=$.n, $2.p>$1.p, cnt + 1 AS cnt, $2.p AS last}"),
    "not followed by": PAIR.format("NOT FOLLOWED BY{x=y, 1 d}"),
    "else": PAIR.format("FOLLOWED BY{x=y, 1 d}") + " ELSE",
    "chain": PAIR.format("JOIN{x=y, 1 d}") + " FOLLOWED BY{y=z, 1 s} S//c->z",
    "grouped": "S//a->x JOIN{x=z, 1 d} (S//b->y FOLLOWED BY{y=z, 1 d} S//c->z)",
    "sub-query": "S//a->x JOIN{x=y, 1 d} (SELECT * FROM S//b PUBLISH T)",
    "constructor": 'SELECT <hit by="{x}, {string(y)}"><t>{x/t}</t>{{}}&lt;&#65;\'</hit> FROM '
    + PAIR.format("JOIN{x=y, 1 d}"),
    "namespaces in a constructor": 'SELECT <p:a xmlns:p="urn:u" p:b="1"><dc:c/><d xmlns="urn:v">'
    '<e xmlns=""/></d></p:a> FROM S//a',
    "comments": "S//a -- not a name\n->x -- and the rest",
}
VALID = {**TABLE_6_2, **CONSTRUCTS}
