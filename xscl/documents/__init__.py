"""Documents and composites: identity, versions, validation, retention of texts and results.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
