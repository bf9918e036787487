"""Documents and composites: identity, versions, validation, retention of texts and results."""
