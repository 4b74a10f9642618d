"""Machines: what a step costs, engine limits, and named profiles with sources."""
