"""The bound of results: evaluation of joins with very many answers."""
