"""The m-ops of XSCL, beside those of `cep_core`: both stages, and what lies between them."""
