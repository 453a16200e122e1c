"""How keys and values become bytes and back."""
