"""Deterministic simulation of the service: `python -m tests.simulation --seed 1 --hours 1`.

The real service runs in one process under a seeded scheduler, a virtual clock, a simulated disk and
a simulated network.  Equal seeds give equal runs, so a failure is replayed by its seed.

scheduler   tasks that run one at a time, in virtual time; finds deadlocks
threads     locks, threads and clocks of the standard library as scheduling points
loops       event loops in virtual time, without sockets
network     sites that clients of the product reach in memory
database    connections as scheduling points, and who may use them
disk        the files that survive a crash, from changes that `disk.c` records
service     the service as a group of tasks, and requests to it
files       file operations as scheduling points, and a slow disk
model       what was acknowledged
journal     what happened, and what is wrong, also in the log of the service
host        the machine of the service: its lives, and requests to it
sites       servers of feeds, and receivers of webhooks
clients     documents, registrations and lists
operation   what the operator does
faults      faults of the machine, its disk and its clock
outages     faults of the network and its sites
bounds      bounds that hold at any time
checks      the comparison with the model
world       the composition of these
child       one simulation, in a process that it takes over
"""
