"""The composition root: which components one process runs, in which order they start."""
