"""Safe parsing of XML from strangers."""
