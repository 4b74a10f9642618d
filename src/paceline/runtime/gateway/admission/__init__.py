"""Admission: a bounded queue per model limits the requests that are sent to the replicas.

Other packages use `AdmissionQueues`, and `Overloaded` with its `RefusalReason`.
"""

from paceline.runtime.gateway.admission.queues import AdmissionQueues
from paceline.runtime.gateway.admission.refusals import Overloaded, RefusalReason

__all__ = ["AdmissionQueues", "Overloaded", "RefusalReason"]
