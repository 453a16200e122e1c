"""The logical graph: nodes the DSL has added, their names, and the rewrites applied before they become a topology."""
