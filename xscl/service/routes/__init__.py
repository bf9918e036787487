"""The routes under /v1, one module with a `router` for each resource."""
