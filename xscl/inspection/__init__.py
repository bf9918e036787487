"""Questions about queries and kept documents: explain, why, diagnosis, replay, vocabulary.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
