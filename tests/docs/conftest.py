"""The browser of the tests of pages, for the site as well."""

from browser.conftest import browser, visit

__all__ = ["browser", "visit"]
