"""What tools know of a running server: addresses, metrics, administration, start and end."""
