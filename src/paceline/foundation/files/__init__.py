"""Files that are read and written strictly, within bounds and atomically."""
