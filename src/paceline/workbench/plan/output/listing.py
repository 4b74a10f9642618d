"""The catalogue as a list: what `--gpu` and MODEL accept, with prices and their dates."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.foundation.planning.sources.catalogue import CPU, Catalogue

_GIB = 1024**3


def render_listing(catalogue: Catalogue) -> str:
    """Return both lists, without a final line break."""
    return "\n".join([*_hardware(catalogue), "", *_models(catalogue)])


def _hardware(catalogue: Catalogue) -> Iterator[str]:
    yield "Hardware (--gpu)"
    yield "  name                 memory  GPUs  USD/hour  per GPU  sold by, date of the price"
    for entry in catalogue.gpus():
        memory = f"{entry.hardware.memory_bytes / _GIB:.0f} GiB"
        name = entry.hardware.name
        if not entry.offers:
            yield f"  {name:19}  {memory:>6}     -   unknown        -  set --usd-per-gpu-hour"
        for offer in entry.offers:
            each = offer.usd_per_hour / offer.num_gpus
            yield (
                f"  {name:19}  {memory:>6}  {offer.num_gpus:4}  {offer.usd_per_hour:8.2f}  "
                f"{each:7.2f}  {offer.source}"
            )
    yield f"  {CPU:19}  this machine"


def _models(catalogue: Catalogue) -> Iterator[str]:
    yield "Models (MODEL); organisation, capitals and hyphens may be left out"
    yield from (f"  {name}" for name in catalogue.model_names())
