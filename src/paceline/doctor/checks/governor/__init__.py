"""Checks of Paceline's governor."""
