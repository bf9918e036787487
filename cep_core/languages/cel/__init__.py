"""CEL, Cayuga's event language."""
