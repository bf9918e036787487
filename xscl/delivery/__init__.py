"""At-least-once delivery of matches to endpoints, live listeners and feed readers.

The outbox is the engine's table of results in order of position.  An endpoint is a destination of
one subscription: a webhook (also Slack and ntfy), a mail address or a file.  It has a durable
cursor.  Every match up to the cursor was delivered or is among the endpoint's dead letters.

A match keeps its id when it is sent again.  After a crash only matches that were sent since the
cursors were last saved are sent twice.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
