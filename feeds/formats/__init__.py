"""Feed formats: from bytes to items, and items to documents."""
