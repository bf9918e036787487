"""The views: a module for each, which adds its pages to the router of `xscl.web.pages`."""
