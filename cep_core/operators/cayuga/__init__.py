"""M-ops of Cayuga's algebra."""
