"""The evaluator of small batches, on NumPy columns."""
