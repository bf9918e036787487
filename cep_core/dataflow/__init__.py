"""The parts of m-ops: channels, the clock, predicates and their index, the journal."""
