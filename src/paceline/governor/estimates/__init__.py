"""Estimators of acceptance and cost from step samples. Used by exploration and policies only."""
