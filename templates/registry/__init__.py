"""R_T: the registered queries of each template."""
