"""Start an application over."""
