"""Matches as feeds: Atom and JSON Feed at secret addresses."""
