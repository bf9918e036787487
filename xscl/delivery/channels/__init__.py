"""The channels of delivery: webhook, mail and file."""
