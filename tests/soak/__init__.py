"""The soak: applications of all kinds under load while faults of all kinds happen to them, and the truth to hold them to."""
