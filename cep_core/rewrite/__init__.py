"""Query rewriting before planning: patterns, what they cost, and cheaper plans that are equal."""
