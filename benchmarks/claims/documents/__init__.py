"""One module per document: its claims, and its numbers that come from no raw result."""
