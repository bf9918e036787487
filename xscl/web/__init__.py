"""The page: what a person sees of a running service, rendered on the server.

    rendering    templates, headers, the strict policy of what a page may load
    cards        matches as they are shown: both documents, joined values marked
    guide        the first minute: what an empty installation leads to
    views/       a module for each view, with its routes

Reading and all forms work without JavaScript; with it matches come live.  What feeds and users
have written is text everywhere: templates escape it, and no template marks anything as safe.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
