"""The DuckDB file: its lock, schema, commit counter, backup and recovery.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
