"""Find out how much of a model has to be downloaded from Hugging Face, and to where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paceline.foundation.capacity.model.weights import weight_bytes
from paceline.foundation.planning.sources.catalogue import Catalogue
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.values import PlanError


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


def is_missing_offline(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether a model named as on Hugging Face is not in the cache and must not be fetched.

    False where it is not known: for other forms of a name, and other sources.
    """
    is_offline = environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    is_name = name.count("/") == 1 and not name.startswith((".", "/", "~")) and name[-1] != "/"
    if not is_offline or not is_name or environ.get("VLLM_USE_MODELSCOPE") or Path(name).exists():
        return False
    return not (_cache_folder(environ) / f"models--{name.replace('/', '--')}").is_dir()


def _cache_folder(environ: Mapping[str, str]) -> Path:
    """As huggingface_hub finds it."""
    if "HF_HUB_CACHE" in environ:
        return Path(environ["HF_HUB_CACHE"])
    home = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(environ.get("HF_HOME") or home) / "hub"
