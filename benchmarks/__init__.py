"""The papers' experiments, and ours: `python -m benchmarks --list`.

Machines are noisy.  Every claim is a ratio of two measurements of one run, interleaved, as
medians of at least three.  The results of both sides are compared before any time is reported.
"""
