"""Conjunctive queries on DuckDB, one for each template."""
