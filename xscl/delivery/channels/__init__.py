"""Ways to deliver a message: webhook, mail, file."""
