"""Many clients at once against one real service: `python -m tests.stress --seed 1 --seconds 60`.

clients   the requests of each kind of client, by its own random numbers
service   `xscl serve` as a process, and its output
oracle    the required content of the store, from the acknowledged requests
faults    kills, suspension, a full disk, a second service, steps of the clock
machine   the small disk and the clock that the service has then
receiver  webhooks of the first poster's matches
program   clients, service and oracle together: from a seed and seconds to what is wrong
planted   the service with a fault of the first release, which the program must find
"""
