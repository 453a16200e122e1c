"""The worker's side: what a thread does in its Python process."""
