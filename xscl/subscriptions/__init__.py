"""Registered subscriptions, the streams that they read, and their matches.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
