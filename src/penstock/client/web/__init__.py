"""The query server: the application's state over HTTP, and a page to look at it."""
