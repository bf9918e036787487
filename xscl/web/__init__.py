"""The web UI of a running service, rendered on the server.

    rendering    templates, headers, the content security policy
    pages        the router that views share, requests for pages, errors as pages
    views/       a module for each view, which adds its pages to the router

All pages and forms work without JavaScript; with it, matches arrive live.  Content from feeds and
users is always text: templates escape it, and no template marks anything as safe.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""
