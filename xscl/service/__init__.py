"""The service over HTTP: who may ask, what is answered, and how it is told when it cannot be.

`app` puts it together; `routes` has one module for each resource; `installation` is what requests
may touch; `accounts`, `tokens` and `names` say who asks and what is his.
"""
