"""The channels of delivery: webhook (also Slack and ntfy), mail and file."""
