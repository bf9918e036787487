"""Stage 1: tree patterns, one shared automaton, and the witnesses of documents.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
