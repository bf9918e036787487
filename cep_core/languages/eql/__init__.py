"""EQL, the event query language of NEXT CEP."""
