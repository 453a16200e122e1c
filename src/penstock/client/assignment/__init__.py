"""Which instance of the group has which tasks."""
