"""How fast state is read, in process and over HTTP, and what reading costs those who wait for results."""
