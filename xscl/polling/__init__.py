"""Followed feeds: polling, admission, credentials, and the spool as the sink.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
