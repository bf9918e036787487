"""Documents as numbered nodes, their names and values."""
