"""The DuckDB file: its lock, schema, commit counter, backup and recovery."""
