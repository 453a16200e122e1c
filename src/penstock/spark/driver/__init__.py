"""Spark in the driver: session, stream threads and their jobs."""
