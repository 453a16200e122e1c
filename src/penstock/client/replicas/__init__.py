"""State beside the tasks that run: standbys, warm-ups, tasks that are brought back."""
