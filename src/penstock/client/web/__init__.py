"""The query server: the application's state over HTTP, and the console."""
