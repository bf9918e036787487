"""Patterns with quantifiers, marks, unordered parts and policies: one m-op."""
