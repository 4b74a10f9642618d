"""`revision_of_folder`: a fingerprint of a model folder's weights, tokenizer and chat template.

Two servers with the same fingerprint give the same answers apart from rounding, so that one may
continue what the other began. Weights are sampled instead of read: new weights of the same
architecture have the same names and shapes, and differ in nearly every number of each tensor that
was trained. The drafter does not belong to it: it does not change the answers.

Limitations: a change of single numbers of a tensor may be missed, and a chat template that is given
on the command line is not seen. Continuation works on token ids and applies no template.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

_TEXTS = ("*.json", "*.jinja", "*.model", "*.tiktoken", "merges.txt", "vocab.txt")
"""Configuration, tokenizer and chat template; read whole."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_SAMPLE_BYTES = 256
"""From the middle of each tensor: a trained tensor differs there with near certainty."""
_NUM_SAMPLES = 4096
"""Of a file whose tensors cannot be listed, at equal distances."""
_MAX_HEADER_BYTES = 256 * 1024 * 1024
_DIGEST_CHARS = 16


def revision_of_folder(folder: Path, options: Sequence[str] = ()) -> str:
    """Sixteen hexadecimal digits. `options` are settings that change the answers, such as the type
    of the numbers.

    Raises OSError when there is no such folder or a file cannot be read.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no model folder")
    digest = hashlib.sha256("\0".join(options).encode())
    for path in _files(folder, _TEXTS):
        _add(digest, path.name.encode(), path.read_bytes())
    for path in _files(folder, _WEIGHTS):
        _add(digest, path.name.encode(), str(path.stat().st_size).encode())
        with path.open("rb") as file:
            for sample in _samples(file, path.stat().st_size):
                digest.update(sample)
    return digest.hexdigest()[:_DIGEST_CHARS]


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of the folder that match, each once, by name."""
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(found, key=lambda path: path.name)


def _add(digest: hashlib._Hash, name: bytes, content: bytes) -> None:
    digest.update(name + b"\0" + hashlib.sha256(content).digest())


def _samples(file: BinaryIO, num_bytes: int) -> Iterator[bytes]:
    """The list of tensors and a sample of each; of other formats, samples at equal distances."""
    header = _safetensors_header(file, num_bytes)
    middles: Iterable[int]
    if header is not None:
        tensors, start = header
        yield json.dumps(tensors, sort_keys=True).encode()
        middles = (start + (begin + end) // 2 for begin, end in sorted(tensors.values()))
    else:
        step = max(num_bytes // _NUM_SAMPLES, _SAMPLE_BYTES)
        middles = range(0, num_bytes, step)
    for at in middles:
        file.seek(max(at - _SAMPLE_BYTES // 2, 0))
        yield file.read(_SAMPLE_BYTES)


def _safetensors_header(
    file: BinaryIO, num_bytes: int
) -> tuple[dict[str, tuple[int, int]], int] | None:
    """(offsets of each tensor, where they count from); None for any other format."""
    prefix = file.read(8)
    if len(prefix) < 8:
        return None
    (length,) = struct.unpack("<Q", prefix)
    if not 2 <= length <= min(_MAX_HEADER_BYTES, num_bytes - 8):
        return None
    try:
        header = json.loads(file.read(length))
        tensors = {
            name: (int(entry["data_offsets"][0]), int(entry["data_offsets"][1]))
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    return tensors, 8 + length
