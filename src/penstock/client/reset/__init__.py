"""Reset of an application."""
