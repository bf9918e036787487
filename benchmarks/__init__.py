"""The papers' experiments, and ours: `python -m benchmarks --list`.

Machines are noisy: every claim is a ratio of two things measured in the same
run, interleaved, as medians of at least three; and the results of both sides
are compared before any time is reported.
"""
