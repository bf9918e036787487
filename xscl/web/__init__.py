"""The web UI of a running service, rendered on the server.

    rendering    templates, headers, the content security policy
    cards        view models of matches: the documents with joined values marked
    views/       a module with routes for each view

All pages and forms work without JavaScript; with it, matches arrive live.  Content from feeds and
users is always text: templates escape it, and no template marks anything as safe.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
