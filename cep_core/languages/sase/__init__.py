"""SASE, complex event queries over typed events."""
