"""Sources and sinks: the stream definition language, and what passes through them."""

from __future__ import annotations

import pytest

from cep_core.errors import QueryError
from cep_core.events import Schema
from cep_core.languages.definitions import Definition, definitions

TEXT = """
SOURCE t (acc str, amount float) TIME at LATENESS 5 s RATE 2.5; -- transactions
SINK alerts (acc str, sum float)
"""


def test_definitions() -> None:
    assert definitions(TEXT, 10) == (
        Definition("source", "t", Schema(("acc", "amount"), (str, float)), "at", 50, 2.5),
        Definition("sink", "alerts", Schema(("acc", "sum"), (str, float))),
    )
    assert definitions("", 1) == ()


FAULTS = """\
SOURC t (a str)
    line 1, column 1: SOURCE or SINK is expected here, not 'SOURC'
      SOURC t (a str)
      ^^^^^
SOURCE t
    line 1, column 9: '(' and the attributes is expected here, not the end
      SOURCE t
              ^
SOURCE t (a strr)
    line 1, column 13: there is no type strr
      SOURCE t (a strr)
                  ^^^^
      hint: did you mean str?
SOURCE t (a str, a int)
    line 1, column 18: there are two attributes a
      SOURCE t (a str, a int)
                       ^
SOURCE t (a str) RATE 5 s
    line 1, column 23: a rate has no unit: it is in events a second
      SOURCE t (a str) RATE 5 s
                            ^^^
SOURCE t (a str) LATENESS 5
    line 1, column 27: a duration, such as 5 min, is expected here, not '5'
      SOURCE t (a str) LATENESS 5
                                ^
SINK t (a str) RATE 5
    line 1, column 16: SOURCE or SINK is expected here, not 'RATE'
      SINK t (a str) RATE 5
                     ^^^^
SOURCE t (a str) SINK t (a str)
    line 1, column 18: there are two t
      SOURCE t (a str) SINK t (a str)
                       ^^^^
"""


def faults() -> list[tuple[str, str]]:
    found: list[tuple[str, list[str]]] = []
    for line in FAULTS.splitlines():
        if line.startswith("    "):
            found[-1][1].append(line[4:])
        else:
            found.append((line, []))
    return [(text, "\n".join(lines)) for text, lines in found]


@pytest.mark.parametrize(("text", "message"), faults())
def test_message(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        definitions(text, 1)
    assert str(caught.value) == message
