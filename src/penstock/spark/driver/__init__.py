"""The driver's side: the session, the lanes, their jobs."""
