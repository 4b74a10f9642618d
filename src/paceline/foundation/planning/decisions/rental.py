"""Which machines to rent for replicas of a model, in the sizes that are sold.

A replica stays within one machine, so a machine of n GPUs holds n // tensor_parallel replicas, and
each region rents whole machines. Of the offers that hold a replica, the cheapest fleet is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.planning.values import Offer


@dataclass(frozen=True, slots=True)
class Rental:
    """Machines of one size, of all regions."""

    offer: Offer
    num_machines: int

    @property
    def num_gpus(self) -> int:
        """Paid for, in use or idle."""
        return self.num_machines * self.offer.num_gpus

    @property
    def usd_per_hour(self) -> float:
        """Of all machines."""
        return self.num_machines * self.offer.usd_per_hour


def rent(
    offers: Sequence[Offer], replicas_per_region: int, regions: int, tensor_parallel: int
) -> Rental | None:
    """Return the cheapest machines for the replicas; None where no offer holds one replica.

    >>> eight = Offer(8, 80.0, "a list")
    >>> rent([eight], 3, 1, 4)  # two replicas on each machine
    Rental(offer=Offer(num_gpus=8, usd_per_hour=80.0, source='a list'), num_machines=2)
    """
    rentals = [
        Rental(offer, regions * -(-replicas_per_region // (offer.num_gpus // tensor_parallel)))
        for offer in offers
        if offer.num_gpus >= tensor_parallel
    ]
    return min(rentals, key=lambda rental: (rental.usd_per_hour, rental.num_machines), default=None)
