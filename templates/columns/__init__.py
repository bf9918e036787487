"""Columns of NumPy: relations of few rows and their joins; values and their keys."""
