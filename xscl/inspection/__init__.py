"""Reading beside the stream: explain, why, replay, backfill, and the SQL relations.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
