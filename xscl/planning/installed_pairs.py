"""The variable pairs of R_T that stage 1 evaluates: in the automaton, or on composites."""

from __future__ import annotations

from collections.abc import Sequence

from templates.model.relations import Pair
from xscl.planning.operators.leaves import Leaves
from xscl.shredding.automaton.pattern import ask
from xscl.shredding.remote.image import Image


def is_leaf(pair: Pair) -> bool:
    """Test if a pair of variables is one of a composite stream."""
    return pair.first.startswith("#")


class InstalledPairs:
    """Installs and removes pairs of variables; `image` has the automaton of the last run."""

    def __init__(self, image: Image, leaves: Leaves) -> None:
        self.automaton = image.automaton()
        self._image = image
        self._leaves = leaves

    def install(self, pairs: Sequence[Pair]) -> None:
        """Install variable pairs; later documents and composites yield their R_bin rows."""
        of_documents = []
        for pair in pairs:
            if is_leaf(pair):
                self._leaves.add(pair)
            else:
                of_documents.append(pair)
        ask(self.automaton, of_documents)

    def install_missing(self, pairs: Sequence[Pair]) -> None:
        """Install, after a restart, the pairs that the image does not contain."""
        self.install(self._image.missing(self.automaton, pairs))

    def remove(self, pairs: Sequence[int]) -> None:
        """Remove pairs that no row of R_T uses any more."""
        for pair in pairs:
            self.automaton.remove(pair)
            self._leaves.remove(pair)
