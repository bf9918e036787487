"""The durable queues of endpoints, and what sends their messages."""
