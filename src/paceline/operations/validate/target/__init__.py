"""The deployment that is validated: its HTTP exchanges as values, and its metrics."""
