"""Many clients at once against one real service: `python -m tests.stress --seed 1 --seconds 60`.

clients   what each kind of client does, one request after another, by its own random numbers
service   `xscl serve` as a process, and what it prints
oracle    what must be in the store afterwards, by what was acknowledged
program   clients, service and oracle put together: a seed and seconds to what went wrong
planted   the service with a fault of the first release, which the program must find
"""
