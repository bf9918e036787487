"""The views: a module for each, with its `router`."""
