"""Decisions from values to values: memory, speed, fleet, the choice of hardware, advice."""
