"""Lists as parameters of statements."""

TEXTS = "(SELECT unnest(?::VARCHAR[]))"
"""SQL for the texts of a parameter, after IN."""
