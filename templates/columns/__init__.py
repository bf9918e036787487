"""Columns: NumPy operations, interned values, sorted runs, lent Arrow tables."""
