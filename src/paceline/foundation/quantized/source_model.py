"""The model to quantize: its configuration, and its tensors as their files list them."""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.compatibility.stored_formats import UNQUANTIZED, stored_format
from paceline.foundation.named_models import MODEL_NAMES
from paceline.foundation.quantized.errors import QuantizeError, WrongUsage

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor is, and its shape."""

    file: str
    shape: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True, slots=True)
class SourceModel:
    """A model folder in Hugging Face layout with safetensors weights."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, StoredTensor]

    @property
    def architecture(self) -> str:
        """The class of the model, such as Qwen2ForCausalLM."""
        names = self.config.get("architectures") or ["unknown"]
        return str(names[0])

    @property
    def dtype(self) -> str:
        """Number format of the weights, as config.json says."""
        return str(self.config.get("dtype") or self.config.get("torch_dtype") or "float32")

    @property
    def num_params(self) -> int:
        """Number of weights."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())

    @property
    def num_bytes(self) -> int:
        """Size of all tensors as stored."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())

    def layer_of(self, name: str) -> tuple[int, str] | None:
        """Return (number of the decoder layer, name within it); None for other tensors.

        >>> SourceModel(Path(), {}, {}).layer_of("model.layers.3.mlp.up_proj.weight")
        (3, 'mlp.up_proj.weight')
        """
        found = _LAYER.fullmatch(name)
        return None if found is None else (int(found[1]), found[2])

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        found = [at[0] for name in self.tensors if (at := self.layer_of(name)) is not None]
        return max(found, default=-1) + 1

    def other_files(self) -> list[Path]:
        """Return the files that are neither weights nor config.json: tokenizer, template."""
        return [
            path
            for path in sorted(self.folder.iterdir())
            if path.is_file()
            and path.suffix not in _WEIGHT_SUFFIXES
            and not path.name.endswith(".index.json")
            and path.name not in ("config.json", "paceline-provenance.json")
            and not path.name.startswith(".")
        ]


def read_source(model: str) -> SourceModel:
    """Read configuration and headers of a folder. Raises QuantizeError for what cannot be used."""
    folder = Path(model)
    if not folder.is_dir():
        raise WrongUsage(
            f"MODEL is {model}, which is neither a folder nor {' or '.join(MODEL_NAMES)}"
            f"{did_you_mean(model, MODEL_NAMES)}"
        )
    config = _read_json(folder / "config.json")
    stored = stored_format(config, folder)
    if stored != UNQUANTIZED:
        raise WrongUsage(
            f"{folder} is already quantized ({stored}); quantize the original weights instead"
        )
    files = _weight_files(folder)
    tensors: dict[str, StoredTensor] = {}
    for file in files:
        tensors |= _read_header(folder / file)
    return SourceModel(folder, config, tensors)


def checksums(
    files: Iterable[Path], on_bytes: Callable[[int], None] = lambda _: None
) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of each file by name. `on_bytes` gets the bytes of each read."""
    found: dict[str, dict[str, Any]] = {}
    for path in files:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
                on_bytes(len(block))
        found[path.name] = {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
    return found


def source_files(source: SourceModel) -> list[Path]:
    """Return the files that decide the result: configuration, tokenizer, template and weights."""
    weights = {tensor.file for tensor in source.tensors.values()}
    names = ["config.json", *sorted(weights)]
    return [source.folder / name for name in names] + source.other_files()


def _weight_files(folder: Path) -> list[str]:
    if (folder / _INDEX).is_file():
        weight_map = _read_json(folder / _INDEX).get("weight_map")
        if not isinstance(weight_map, dict):
            raise QuantizeError(f"{folder / _INDEX} has no weight_map")
        return sorted({str(name) for name in weight_map.values()})
    if (folder / _SINGLE).is_file():
        return [_SINGLE]
    raise QuantizeError(
        f"{folder} has neither {_SINGLE} nor {_INDEX}; convert its weights to safetensors first"
    )


def _read_header(path: Path) -> dict[str, StoredTensor]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        return {
            name: StoredTensor(
                path.name,
                tuple(entry["shape"]),
                entry["data_offsets"][1] - entry["data_offsets"][0],
            )
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise QuantizeError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise QuantizeError(f"{path} is not a safetensors file: {error}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise QuantizeError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise QuantizeError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise QuantizeError(f"{path} is not a JSON object")
    return content
