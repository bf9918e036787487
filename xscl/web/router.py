"""The router of the pages, with the routes that each module in `views` adds to it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from xscl.web import views
from xscl.web.pages import router

for module in iter_modules(views.__path__, f"{views.__name__}."):
    import_module(module.name)

__all__ = ["router"]
