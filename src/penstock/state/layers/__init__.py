"""Typed and byte-level layers around an engine: metering, caching, change logging."""
