"""The checks, each an observation of a deployment and a decision about it.

For other rooms: `CHECKS`, all checks in the order in which they run, and `Deployment`.
"""

from paceline.validate.checks.catalogue import CHECKS
from paceline.validate.checks.check import Check
from paceline.validate.checks.deployment import Deployment

__all__ = ["CHECKS", "Check", "Deployment"]
