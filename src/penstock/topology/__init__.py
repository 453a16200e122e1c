"""From nodes and stores to sub-topologies: validation, internal topics, and the text of `describe()`."""
