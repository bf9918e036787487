"""State of the plan as log entries and snapshots."""
