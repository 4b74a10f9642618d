"""Faults of a deployment, injected by a proxy, that prove that each check can fail.

For tests and benchmarks: `FaultProxy`, `FAULTS` (every fault with the check that must find it) and
`Fault`.
"""

from paceline.testing.fault_injection.catalogue import FAULTS
from paceline.testing.fault_injection.fault import Fault
from paceline.testing.fault_injection.proxy import FaultProxy

__all__ = ["FAULTS", "Fault", "FaultProxy"]
