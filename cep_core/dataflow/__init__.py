"""What m-ops are made of: channels, the clock, predicates and their index, the journal."""
