"""A measurement as figures with their spread, as a file and as a page."""
