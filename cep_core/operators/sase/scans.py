"""Which way a sequence is computed.

Runs compute repeated components and strategies that select by what lies between; everything else
stacks do, with less work.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

from cep_core.dataflow.mop import MOp, Wanted
from cep_core.operators.sase import runs, scan
from cep_core.operators.sase.pattern import Scan
from cep_core.operators.sase.stacks import ActiveStacks


def scan_for(wanted: Wanted, number: int) -> MOp:
    """Return the m-op for a sequence."""
    return (runs.Runs if has_runs(wanted) else ActiveStacks)(wanted, number)


def sharing_key(wanted: Wanted) -> Hashable:
    """Return the key of sequences that one m-op computes."""
    return runs.sharing_key(wanted) if has_runs(wanted) else scan.sharing_key(wanted)


def has_runs(wanted: Wanted) -> bool:
    """Return True if runs compute a sequence."""
    pattern = cast(Scan, wanted.definition).pattern
    return pattern.repeated or pattern.strategy != "any"
