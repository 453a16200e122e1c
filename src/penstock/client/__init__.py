"""The application: its life, its conductor, its membership in the group."""
