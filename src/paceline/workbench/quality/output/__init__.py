"""The report of a comparison: JSON and lines for a terminal."""
