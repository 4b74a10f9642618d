"""Scripted faults: their values, when they are triggered, and how they are injected.

Other packages use `Fault`, `FaultKind`, `FaultBook`, `ServerFaults`, `InFlightRequest` and the
readers of fault scripts.
"""
