"""What runs next, in which thread: the conductor and what it decides with."""
