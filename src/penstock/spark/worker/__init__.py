"""The worker's side: what a lane does in its Python process."""
