"""The driver's side: the session, the threads, their jobs."""
