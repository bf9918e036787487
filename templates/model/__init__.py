"""Join graphs, templates, and the bound of results."""
