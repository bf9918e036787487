"""Followed feeds: polling, admission, credentials, and the spool as the sink."""
