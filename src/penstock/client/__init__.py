"""The application: life cycle, event loop, group membership."""
