"""A soak test: `xscl serve` under a steady load for hours, `python -m tests.soak --hours 1`.

fast_clock     the service's clock, faster than the wall clock
service        `xscl serve` by that clock
replay         real feeds that change over time, some of which misbehave, on loopback
population     20,000 subscriptions in several languages
users          clients that come and go, and what must be delivered to them
measurements   samples of the processes, the disk and the counters; latencies
verdict        growth over the second half, and all else that must hold
report         JSON, Markdown and plots
program        all of these together

One hour is 60 hours of the service.  Windows, lateness and retention are a few hours of its time,
so that the state is steady after a third of the run.
"""
