"""Read the catalogue of hardware and well-known models, and the user's file that overrides it.

The data are `data/gpus.json` and `data/models.json`. A user's file has the same keys: an entry of
`gpus`, `cpus` or `models` replaces the one of the same name, or adds one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from paceline.foundation.capacity.hardware import Hardware, Link, Overheads
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.compatibility.hardware_classes import class_of_cpu
from paceline.foundation.files.strict_files import load_json
from paceline.foundation.planning.sources.figures import refuse_wrong_figures
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.foundation.planning.values import HardwareEntry, Offer, PlanError

CPU = "cpu"
"""The name of the machine that the command runs on."""
_GIVEN = "given with --usd-per-gpu-hour"


class Catalogue:
    """Hardware and models by name, the user's entries first."""

    def __init__(self, hardware: Mapping[str, Any], models: Mapping[str, Any]) -> None:
        self._defaults = hardware["defaults"]
        self._gpus = {entry["name"]: entry for entry in hardware["gpus"]}
        self._cpus = {entry["name"]: entry for entry in hardware["cpus"]}
        self._models = {name: entry for entry in models["models"] for name in entry["names"]}

    def override(self, document: Mapping[str, Any], path: Path) -> None:
        """Replace and add the entries of a user's file."""
        unknown = set(document) - {"schema_version", "gpus", "cpus", "models"}
        if unknown:
            raise PlanError(
                f"{path} has the keys {', '.join(sorted(unknown))}; allowed: gpus, cpus, models. "
                "It is the file given with --catalogue"
            )
        for known, added in ((self._gpus, "gpus"), (self._cpus, "cpus")):
            for entry in document.get(added, ()):
                before = known.get(entry["name"], {})
                if "usd_per_hour" in entry:
                    sold = ("offers", "gpu_offers")
                    before = {name: value for name, value in before.items() if name not in sold}
                known[entry["name"]] = {**before, **entry}
                refuse_wrong_figures(known[entry["name"]])
        # Reading every changed entry finds missing fields now, with the file's name at hand.
        for entry in document.get("gpus", ()):
            self._gpu(self._gpus[entry["name"]], None)
        for entry in document.get("cpus", ()):
            self._cpu(self._cpus[entry["name"]], Machine(1, 0, frozenset()), None)
        for entry in document.get("models", ()):
            entry["config"].items()
            self._models.update(dict.fromkeys(entry["names"], entry))

    def gpu_names(self) -> list[str]:
        """All GPUs, in the order of the file."""
        return list(self._gpus)

    def model_names(self) -> list[str]:
        """All models, in the order of the file."""
        return list(self._models)

    def model_config(self, name: str) -> Mapping[str, Any] | None:
        """Return the config of a model; None for one that is not in the table."""
        return self.find_model(name)[1]

    def find_model(self, name: str) -> tuple[str, Mapping[str, Any] | None]:
        """Return the full name and the config of a model; None for an unknown one.

        The organisation, capitals, hyphens and the prefix "Meta-" may be left out, as long as that
        means one model.
        """
        entry = self._models.get(name)
        if entry is None:
            wanted = short_key(name)
            matches = {
                full: entry
                for full, entry in self._models.items()
                if full.lower() == name.lower() or ("/" not in name and short_key(full) == wanted)
            }
            if len({id(entry) for entry in matches.values()}) != 1:
                return name, None
            name, entry = next(iter(matches.items()))
        config = entry["config"]
        assert isinstance(config, dict)
        return name, config

    def find(self, name: str, machine: Machine, usd_per_hour: float | None) -> HardwareEntry:
        """Return the hardware of this name or alias, at the user's price if there is one."""
        wanted = name.lower()
        if wanted in self._cpus:
            return self._cpu(self._cpus[wanted], machine, usd_per_hour)
        for entry in self._gpus.values():
            if wanted == entry["name"] or wanted in entry.get("aliases", ()):
                return self._gpu(entry, usd_per_hour)
        allowed = [*self._gpus, *self._cpus]
        raise PlanError(
            f"--gpu {name} is not in the catalogue; allowed: {', '.join(allowed)}. Add your own "
            f"with --catalogue FILE{did_you_mean(name, allowed)}"
        )

    def gpus(self) -> Iterator[HardwareEntry]:
        """Yield all GPUs, in the order of the file."""
        for entry in self._gpus.values():
            yield self._gpu(entry, None)

    def priced_gpus(self) -> Iterator[HardwareEntry]:
        """Yield the GPUs that have a price."""
        return (entry for entry in self.gpus() if entry.offers)

    def _gpu(self, entry: Mapping[str, Any], usd_per_hour: float | None) -> HardwareEntry:
        values = {**self._defaults, **entry}
        offers = _offers(entry, usd_per_hour)
        link = entry["link"]
        hardware = Hardware(
            name=entry["name"],
            is_cpu=False,
            memory_bytes=entry["memory_mib"] * 1024**2,
            bandwidth_bytes_per_s=entry["bandwidth_gb_per_s"] * 1e9,
            bandwidth_fraction=values["bandwidth_fraction"],
            flops_per_s={name: value * 1e12 for name, value in entry["tflops"].items()},
            flops_fraction=values["flops_fraction"],
            link=Link(link["name"], link["gb_per_s"] * 1e9, link["all_reduce_us"] * 1e-6),
            gpus_per_machine=entry["gpus_per_machine"],
            usd_per_hour=offers[0].usd_per_hour / offers[0].num_gpus if offers else 0.0,
            kv_block_tokens=values["kv_block_tokens"],
            overheads=_overheads(values["overheads_us"]),
        )
        return HardwareEntry(
            hardware, offers, entry["source"], hardware_class=entry.get("hardware_class")
        )

    def _cpu(
        self, entry: Mapping[str, Any], machine: Machine, usd_per_hour: float | None
    ) -> HardwareEntry:
        core = entry["per_core"]
        cores = machine.num_cores
        price = core["usd_per_hour"] * cores if usd_per_hour is None else usd_per_hour
        hardware = Hardware(
            name=entry["name"],
            is_cpu=True,
            memory_bytes=machine.available_memory_bytes,
            bandwidth_bytes_per_s=core["bandwidth_gb_per_s"] * 1e9 * cores,
            bandwidth_fraction=entry["bandwidth_fraction"],
            flops_per_s={name: value * 1e12 * cores for name, value in core["tflops"].items()},
            flops_fraction=entry["flops_fraction"],
            link=Link("none", 1.0, 0.0),
            gpus_per_machine=1,
            usd_per_hour=price,
            kv_block_tokens=entry["kv_block_tokens"],
            overheads=_overheads(entry["overheads_us"]),
            sums_memory_and_arithmetic=True,
        )
        source = f"{entry['price_source']}, {entry['price_date']}"
        offer = Offer(1, price, source if usd_per_hour is None else _GIVEN)
        return HardwareEntry(
            hardware,
            (offer,),
            entry["source"],
            hardware_class=class_of_cpu(machine.cpu_flags) if machine.cpu_flags else None,
        )


def load_catalogue(override: Path | None = None) -> Catalogue:
    """Return the catalogue, with the user's file over it where one is given."""
    folder = resources.files("paceline.foundation.planning") / "data"
    catalogue = Catalogue(
        json.loads((folder / "gpus.json").read_text(encoding="utf-8")),
        json.loads((folder / "models.json").read_text(encoding="utf-8")),
    )
    if override is not None:
        try:
            document = load_json(override.read_text(encoding="utf-8-sig"))
            catalogue.override(document, override)
        except KeyError as missing:
            raise PlanError(
                f"{override}, given with --catalogue: an entry lacks the field {missing}; a new "
                "entry needs all fields of those in the catalogue (docs/plan.md)"
            ) from None
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError(f"{override}, given with --catalogue, is unusable: {error}") from None
    return catalogue


def short_key(name: str) -> str:
    """A name without what people leave out.

    >>> short_key("meta-llama/Meta-Llama-3-70B"), short_key("llama3-70b")
    ('llama370b', 'llama370b')
    """
    short = name.rpartition("/")[2].lower().removeprefix("meta-")
    return short.replace("-", "").replace("_", "")


def _overheads(microseconds: Mapping[str, float]) -> Overheads:
    return Overheads(**{f"{name}_s": value * 1e-6 for name, value in microseconds.items()})


def _offers(entry: Mapping[str, Any], usd_per_gpu_hour: float | None) -> tuple[Offer, ...]:
    """What is sold, the smallest machine first; with a price of one GPU, every size."""
    source = _GIVEN
    if usd_per_gpu_hour is None:
        sold = [*_machines(entry), *_single_gpus(entry)]
        if sold:
            return tuple(sorted(sold, key=lambda offer: (offer.num_gpus, offer.usd_per_hour)))
        usd_per_gpu_hour = entry.get("usd_per_hour")
        source = f"{entry.get('price_source')}, {entry.get('price_date')}"
    if usd_per_gpu_hour is None:
        return ()
    sizes = range(1, entry["gpus_per_machine"] + 1)
    return tuple(Offer(size, size * usd_per_gpu_hour, source) for size in sizes)


def _machines(entry: Mapping[str, Any]) -> Iterator[Offer]:
    for offer in entry.get("offers", ()):
        source = f"{offer['source']}, {offer['date']}"
        yield Offer(offer["num_gpus"], offer["usd_per_hour"], source)


def _single_gpus(entry: Mapping[str, Any]) -> Iterator[Offer]:
    """GPUs rented at a price for each, in the numbers that the seller has."""
    for offer in entry.get("gpu_offers", ()):
        source = f"{offer['source']}, {offer['date']}"
        for size in offer["num_gpus"]:
            yield Offer(size, size * offer["usd_per_gpu_hour"], source, is_node=False)
