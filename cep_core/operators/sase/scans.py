"""Which way a sequence is computed: what the options say, or what is best (section 4.4).

Runs compute repeated components and strategies that select by what lies between; everything else
stacks do, with less work.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import assert_never, cast

from cep_core.dataflow.mop import MOp, Operator, Wanted
from cep_core.dataflow.options import Options
from cep_core.operators.sase import runs, scan
from cep_core.operators.sase.multistacks import MultiStacks
from cep_core.operators.sase.pattern import Pattern, Scan
from cep_core.operators.sase.runtimestack import RuntimeStack
from cep_core.operators.sase.stacks import ActiveStacks


def scan_for(wanted: Wanted, number: int, options: Options, sources: Iterable[Operator]) -> MOp:
    """Return the m-op for a sequence; ``sources`` are the base streams."""
    pattern = cast(Scan, wanted.definition).pattern
    if _has_runs(pattern):
        return runs.Runs(wanted, number, partitioned=options.sequence_scan not in ("basic", "ais"))
    kind = options.sequence_scan
    if kind == "multi-pais" and len(pattern.tests) < 2:
        kind = "pais"
    match kind:
        case "basic":
            return RuntimeStack(wanted, number, options, _bystanders(wanted, sources))
        case "multi-pais":
            return MultiStacks(wanted, number, options)
        case "auto" | "pais" | "ais":
            tests = {"auto": None, "pais": 1, "ais": 0}[kind]
            return ActiveStacks(wanted, number, options, tests)
        case _:
            assert_never(kind)


def sharing_key(wanted: Wanted) -> Hashable:
    """Return the key of sequences that one m-op computes."""
    if _has_runs(cast(Scan, wanted.definition).pattern):
        return runs.sharing_key(wanted)
    return scan.sharing_key(wanted)


def _has_runs(pattern: Pattern) -> bool:
    return pattern.repeated or pattern.strategy != "any"


def _bystanders(wanted: Wanted, sources: Iterable[Operator]) -> list[Operator]:
    """Return the streams on the channels of the inputs that are no input."""
    channels = {one.channel for one in wanted.inputs}
    return [one for one in sources if one.channel in channels and one not in wanted.inputs]
