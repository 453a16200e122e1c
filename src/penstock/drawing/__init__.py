"""Pictures of topologies: a picture as SVG, and a map for the console, both from one geometry."""
