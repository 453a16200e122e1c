"""The event loop: it decides what runs next in each thread."""
