"""Stop processes of a run at random, and keep a core busy beside it."""
