"""Query rewriting before planning: patterns, what they cost, and cheaper ones that are equal."""
