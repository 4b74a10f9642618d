"""`AdmissionQueues`: one admission queue per model; no model waits for another one's engines."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from paceline.runtime.gateway.admission.queue import AdmissionObserver, AdmissionQueue
from paceline.runtime.gateway.admission.slot_source import SlotClaim, SlotSource
from paceline.runtime.gateway.peers import NoPeerWorkers, PeerWorkers, SlotDemand
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.settings import AdmissionSettings

C = TypeVar("C", bound=SlotClaim)


class QueuesObserver(Protocol):
    """Is notified of the queues of all models. Its methods must not block or raise."""

    def of_model(self, model: str) -> AdmissionObserver:
        """The observer of a queue that begins; a model may get another one after it has left."""
        ...

    def model_left(self, model: str) -> None:
        """The queue of a model is dropped; it is empty."""
        ...


class AdmissionQueues(Generic[C]):
    """Creates the queue of a model at its first request, and drops it once the model has left.

    `slots_of` gives the slots of a model's replicas.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        slots_of: Callable[[str], SlotSource[C]],
        observer: QueuesObserver,
        peers: PeerWorkers | None = None,
    ) -> None:
        self._settings = settings
        self._slots_of = slots_of
        self._observer = observer
        self._peers = peers or NoPeerWorkers()
        self._queues: dict[str, AdmissionQueue[C]] = {}

    def of(self, model: str) -> AdmissionQueue[C]:
        """The queue of a served model. Never pass a name that a client made up: each name costs
        memory."""
        queue = self._queues.get(model)
        if queue is None:
            self._drop_unused()
            queue = self._queues[model] = AdmissionQueue(
                self._settings,
                self._slots_of(model),
                self._observer.of_model(model),
                functools.partial(self._peers.num_waiting, model),
            )
        return queue

    def demands(self, num_held: Mapping[str, int]) -> dict[str, SlotDemand]:
        """The demand of this process by replica, where it has any; `num_held` sequences run."""
        waiting: Counter[str] = Counter()  # a replica of several ids may be in several queues
        for queue in self._queues.values():
            waiting.update(queue.waiting_by_replica())
        return {
            name: SlotDemand(num_held.get(name, 0), waiting[name])
            for name in {**num_held, **waiting}
        }

    def queue_lengths(self) -> dict[str, int]:
        """Waiting requests by model, for the models that have any."""
        lengths = {model: queue.num_waiting for model, queue in self._queues.items()}
        return {model: length for model, length in lengths.items() if length}

    def recheck(self) -> None:
        """Admit waiting requests after the quotas have changed."""
        for queue in self._queues.values():
            queue.recheck()

    def _drop_unused(self) -> None:
        for model, queue in list(self._queues.items()):
            is_idle = not queue.num_held and not queue.num_waiting
            if is_idle and not self._slots_of(model).quotas(NeedsKind()):
                del self._queues[model]
                self._observer.model_left(model)
