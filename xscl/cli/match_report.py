"""Report of the matches of one command, printed as they come or as one JSON answer.

A match is acknowledged in the store once it was written out.  After a kill before that, the next
command reports it again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xscl.cli.match_text import match_text
from xscl.cli.output import echo_lines

if TYPE_CHECKING:
    from xscl.delivery.message import MatchFields


@dataclass(slots=True)
class MatchReport:
    """Prints matches, or with `as_json` collects them in `rows`; `shown` counts both.

    Matches among what feeds held at their first poll are only counted by subscription, in `silent`,
    unless `history` is set.
    """

    as_json: bool
    history: bool = True
    verbose: bool = False
    shown: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    silent: Counter[str] = field(default_factory=Counter)

    def __call__(self, matches: Iterable[MatchFields]) -> None:
        from xscl.delivery.message import row_of

        for match in matches:
            if match.history and not self.history:
                self.silent[match.subscription] += 1
                continue
            self.shown += 1
            if self.as_json:
                self.rows.append(row_of(match))
            else:
                echo_lines(match_text(match, verbose=self.verbose))
        sys.stdout.flush()
