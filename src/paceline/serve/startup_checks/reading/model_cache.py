"""Find out how much of a model has to be downloaded from Hugging Face, and to where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paceline.capacity.model.weights import weight_bytes
from paceline.plan.sources.catalogue import Catalogue
from paceline.plan.sources.model_source import find_model
from paceline.plan.values import PlanError


def find_download(
    name: str | None, catalogue: Catalogue, environ: Mapping[str, str]
) -> tuple[Path, int] | None:
    """Return the cache folder and the bytes of the weights of a model that is not in it.

    None for a folder on this disk, for a model that is in the cache (whole or in part), and for one
    whose size is not known.
    """
    if not name or Path(name).exists() or catalogue.model_config(name) is None:
        return None
    cache = _cache_folder(environ)
    if (cache / f"models--{name.replace('/', '--')}").is_dir():
        return None
    try:
        model = find_model(name, catalogue)
    except PlanError:
        return None
    return cache, weight_bytes(model.shape, model.weight_format).total


def _cache_folder(environ: Mapping[str, str]) -> Path:
    """As huggingface_hub finds it."""
    if "HF_HUB_CACHE" in environ:
        return Path(environ["HF_HUB_CACHE"])
    home = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(environ.get("HF_HOME") or home) / "hub"
