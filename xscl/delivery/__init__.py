"""Matches on their way to those who want them.

The outbox is the engine's table of results, in the order of positions.  An endpoint is a place to
which a subscription's matches are brought (a webhook, a mail address, a file), with a durable
cursor: everything up to it was delivered, or is among the endpoint's letters that were refused.
So a match is delivered at least once, under the same id, whatever process it takes; after a kill
at most that comes again which was sent since the cursors were last written.
"""
