"""What every floor stands on: arithmetic, facts, values, and one way to ask, measure and report."""
