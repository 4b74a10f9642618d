"""A plan as text for the terminal, as JSON, and as the files to start from."""
