"""The checks, each an observation of a deployment and a decision about it.

For other rooms: `CHECKS`, all checks in the order in which they run, and `Deployment`.
"""

from paceline.operations.validate.checks.catalogue import CHECKS
from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment

__all__ = ["CHECKS", "Check", "Deployment"]
