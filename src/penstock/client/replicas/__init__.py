"""State outside of stream threads: standbys, warm-ups, and tasks that restore."""
