"""What runs next, in which lane: the conductor and what it decides with."""
