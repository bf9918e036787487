"""The language XSCL: from the text of a query to its value-join normal form.

`parser.parse` makes the tree of `syntax`, `unparse.unparse` prints it, and
`normalform.normalise` brings a query into the form that the engine evaluates.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
