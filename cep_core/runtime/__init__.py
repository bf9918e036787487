"""Events in, matches out: streams, intake, queries, delivery."""
