"""The bound of results: what is evaluated of joins that have very many answers."""
