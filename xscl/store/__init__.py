"""The database of SQLite: file, lock and mark, transactions, relations in Arrow, SQL.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
