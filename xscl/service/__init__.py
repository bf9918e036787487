"""The HTTP API: routes, authentication, quotas and problem documents.

The server's `app` assembles it.  `routes` has one module for each resource, `app` is the
application of requests, and `accounts`, `tokens` and `names` identify users and their
objects.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
