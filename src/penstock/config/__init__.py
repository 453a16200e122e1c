"""The settings of an application: their names, their defaults, how they are read."""
