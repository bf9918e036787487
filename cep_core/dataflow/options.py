"""Options: what is switched inside m-ops, for experiments; the optimiser chooses where one may.

Whatever the options, results are the same.  The names of the ways to scan for sequences are those
of Wu, Diao and Rizvi 2006, sections 3.2, 4.1 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from cep_core.errors import CepError, near_miss
from cep_core.events import shown

Scanning: TypeAlias = Literal["auto", "basic", "ais", "pais", "multi-pais"]


@dataclass(frozen=True, slots=True)
class Options:
    """The AN-index and AI-index of states; how sequences are scanned for, and what is pushed down.

    - ``sequence_scan``: "basic" (a runtime stack), "ais" (active instance stacks), "pais" (those
      partitioned by the first equivalence test), "multi-pais" (by each test on its own); "auto"
      takes all tests as one key.
    - ``dynamic_filtering``: conditions are tested during construction, not on whole sequences.
    - ``scan_predicates``: conditions on one event are tested before it is scanned.
    - ``scan_windows``, ``construction_windows``: windows in SS and in SC.
    - ``negation_index``: equalities of a negation are hashed.
    - ``rewriting``: patterns of EQL are rewritten by the rates of streams, before planning.
    """

    active_node_index: bool = True
    active_instance_index: bool = True
    sequence_scan: Scanning = "auto"
    dynamic_filtering: bool = True
    scan_predicates: bool = True
    scan_windows: bool = True
    construction_windows: bool = True
    negation_index: bool = True
    rewriting: bool = True

    def __post_init__(self) -> None:
        known = get_args(Scanning)
        if self.sequence_scan not in known:
            raise CepError(
                f"there is no way to scan for sequences {shown(self.sequence_scan)}",
                hint=near_miss(str(self.sequence_scan), known),
            )
