"""`AdmissionQueues`: one admission queue per model; no model waits for another one's engines."""

from __future__ import annotations

import functools
from collections.abc import Callable

from paceline.gateway.admission.queue import AdmissionObserver, AdmissionQueue
from paceline.gateway.peers import NoPeerWorkers, PeerWorkers, SlotDemand
from paceline.gateway.settings import AdmissionSettings


class AdmissionQueues:
    """Creates the queue of a model at its first request, and drops it once the model has left.

    `capacity` gives a model's slots over all processes; it must answer from memory.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        capacity: Callable[[str], int],
        observer: AdmissionObserver,
        peers: PeerWorkers | None = None,
    ) -> None:
        self._settings = settings
        self._capacity = capacity
        self._observer = observer
        self._peers = peers or NoPeerWorkers()
        self._queues: dict[str, AdmissionQueue] = {}

    def of(self, model: str) -> AdmissionQueue:
        """The queue of a served model. Never pass a name that a client made up: each name costs
        memory."""
        queue = self._queues.get(model)
        if queue is None:
            self._drop_unused()
            queue = self._queues[model] = AdmissionQueue(
                self._settings,
                lambda: self._capacity(model),
                self._observer,
                functools.partial(self._peers.slot_quota, model),
            )
        return queue

    def demands(self) -> dict[str, SlotDemand]:
        """Held slots and waiting requests of this process, for the models that have any."""
        return {
            model: SlotDemand(queue.num_held, queue.num_waiting)
            for model, queue in self._queues.items()
            if queue.num_held or queue.num_waiting
        }

    def recheck(self) -> None:
        """Admit waiting requests after the quotas have changed."""
        for queue in self._queues.values():
            queue.recheck()

    def _drop_unused(self) -> None:
        for model, queue in list(self._queues.items()):
            if not queue.num_held and not queue.num_waiting and not self._capacity(model):
                del self._queues[model]
