"""Conditions of blocks: indexes, and the residual predicates."""
