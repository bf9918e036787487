"""Options: switches for experiments, of indexes in m-ops and of rewriting before planning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Switches of the AN-index and AI-index of states, and of rewriting; none changes results.

    With ``rewriting`` patterns of EQL are rewritten by the rates of streams, before planning.
    """

    active_node_index: bool = True
    active_instance_index: bool = True
    rewriting: bool = True
