"""The numbers of composite streams: below 0, one for each definition in use.

Definitions are texts, so that a restart gives the same numbers to the same streams.
"""

from __future__ import annotations

from collections import Counter

from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store


class CompositeIds:
    """Numbers the definitions of composite streams, and counts the uses of each.

    After a restart all numbers are known; one is in use once it is acquired again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._definitions: dict[int, str] = {
            row["number"]: row["definition"] for row in rows_of(store, "composite_stream")
        }
        self._numbers = {text: number for number, text in self._definitions.items()}
        self._uses: Counter[int] = Counter()
        self._new: dict[int, str] = {}
        qids = (row["qid"] for row in rows_of(store, "retired", "qid"))
        self._taken = min(qids, default=0)  # the lowest qid of the results that are kept
        self._lowest = min(self._taken, *self._definitions, 0)

    def acquire(self, definition: str) -> int:
        """Return the number of a definition, perhaps a new one, and count one more use."""
        number = self._numbers.get(definition)
        if number is None:
            number = self._lowest = self._lowest - 1
            self._numbers[definition] = number
            self._definitions[number] = definition
            self._new[number] = definition
        self._uses[number] += 1
        return number

    def definition(self, number: int) -> str:
        """Return the definition of a number in use."""
        return self._definitions[number]

    def number(self, definition: str) -> int:
        """Return the number of a definition that is in use."""
        return int(self._numbers[definition])

    def save(self) -> None:
        """Write the new definitions."""
        self._store.insert_rows(
            "composite_stream",
            ({"number": number, "definition": text} for number, text in self._new.items()),
        )
        self._new.clear()

    def reserve(self, number: int) -> None:
        """Prevent the reuse of the numbers from -1 to `number`: kept results may have them."""
        self._taken = min(self._taken, number)

    def release(self, number: int) -> None:
        """Remove one use of a number; without uses it is dropped, and may be reused."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._numbers[self._definitions.pop(number)]
            if number == self._lowest:
                self._lowest = min(self._taken, *self._definitions, 0)
            delete_rows(self._store, "composite_stream", number=number)
