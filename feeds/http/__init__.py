"""One polite poll of one feed over HTTP, with checked addresses."""
