"""Admission: a bounded queue per model limits the requests that are sent to the replicas.

Other packages use `AdmissionQueues`, and `Overloaded` with its `RefusalReason`.
"""

from paceline.gateway.admission.queues import AdmissionQueues
from paceline.gateway.admission.refusals import Overloaded, RefusalReason

__all__ = ["AdmissionQueues", "Overloaded", "RefusalReason"]
