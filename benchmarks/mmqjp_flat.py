"""`mmqjp-flat`: Figures 6.8 to 6.10 of Hong 2009, two documents with N leaves below the root.

Table 6.5 has the defaults: 1,000 queries, N = 6, Zipf 0.8.  The number of
queries is varied first, then N, then the Zipf parameter.
"""

from __future__ import annotations

from benchmarks.mmqjp import flat
from benchmarks.mmqjp_points import Experiment

LEAVES = 6  # Table 6.5
run = Experiment(
    "mmqjp-flat",
    figures=("6.8", "6.9", "6.10"),
    varied="leaves",
    most=LEAVES,
    sweep=(4, 6, 8, 10, 12),
    schema=flat,
    quick_sample=50,
).run
