"""The documentation site: what `make docs` adds to the pages of docs/.

generated    parts of reference pages, made from the program
commands     commands, settings and the environment
python_api   public names with their docstrings
service_api  addresses of the HTTP API, codes of problems
relations    relations of SQL with their columns
links        links out of docs/
hooks        the hooks of MkDocs, the only module that needs it
"""
