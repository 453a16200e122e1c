"""State stores: interfaces, engines, layers, and the builders that stack them."""
