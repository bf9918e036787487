"""Durable queues of endpoints, and the delivery loop."""
