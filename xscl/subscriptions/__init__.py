"""Registered subscriptions, the streams that they read, and their matches."""
