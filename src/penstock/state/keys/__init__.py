"""How keys of windows and sessions are laid out in bytes, and which bytes a query has to look at."""
