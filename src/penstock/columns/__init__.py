"""Many records at a time: their columns, and what operators declare about them."""
