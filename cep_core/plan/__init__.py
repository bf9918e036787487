"""The plan, and the extension interface for m-ops, rules and builders of other packages."""
