"""From the spool to the engine: directly, or with stage 1 on Spark.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
