"""Options: what is switched for experiments, inside m-ops and before planning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The AN-index and AI-index of states, and rewriting; whatever they are, results are the same.

    With ``rewriting`` patterns of EQL are rewritten by the rates of streams, before planning.
    """

    active_node_index: bool = True
    active_instance_index: bool = True
    rewriting: bool = True
