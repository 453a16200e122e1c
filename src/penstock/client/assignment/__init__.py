"""The assignment of tasks to instances."""
