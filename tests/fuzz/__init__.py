"""Fuzzers: random and damaged texts and events, which are taken or refused with our own errors."""
