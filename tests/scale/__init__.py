"""A fleet of simulated instances: what grows with partitions and instances, without the machines for it."""
