"""The real service under load, and under faults: `python -m tests.soak --hours 1`.

service        `xscl serve` as a process, one life after another in one directory
fast_clock     the service's clock, faster than the wall clock
publisher      feeds that grow with each poll, or by the service's clock; some misbehave
population     20,000 subscriptions in several languages
clients        clients that come and go, and what they expect
hostile        one client that does its worst
faults         kills at points and at any time, suspension, a full disk, steps of the clock
machine        the small disk and the clock that the service has then
oracle         what the store must have, and what must be delivered
measurements   samples of the processes, the disk and the counters; latencies
verdict        growth over the second half, and all else that must hold
report         JSON and Markdown
program        all of these together

One hour is 60 hours of the service.  Windows, lateness and retention are a few hours of its time,
so that the state is steady after a third of the run.  `--seconds 60` is a run by the usual clock
instead, with all faults that are asked for, and the store compared in the end.
"""
