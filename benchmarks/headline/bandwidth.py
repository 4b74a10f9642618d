"""The limit of a server without drafts: the bandwidth of the memory, and the bytes of the weights.

With one user, every token reads all weights once, so that a server gives at most bandwidth / bytes
tokens per second. The KV cache of short chats is less than a hundredth of the weights.
"""

from __future__ import annotations

import json
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.headline.arms import LLAMACPP, NAIVE, Arm, ModelFolders

_PROBE_BYTES = 512 << 20
"""Above the caches of any processor, and what is read for a token of the model."""
_NUM_PASSES = 8
_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"


def measure_bandwidth() -> float:
    """Bytes per second that all cores together read from memory: the best of some passes, 0.5 s."""
    parts = np.array_split(np.ones(_PROBE_BYTES // 4, np.float32), os.cpu_count() or 1)
    with ThreadPoolExecutor(len(parts)) as threads:
        seconds = []
        for _ in range(_NUM_PASSES):
            began_s = time.perf_counter()
            list(threads.map(np.sum, parts))
            seconds.append(time.perf_counter() - began_s)
    return _PROBE_BYTES / min(seconds)


def read_bytes(arm: Arm, model: ModelFolders) -> int:
    """Bytes of weights of the target that the arm's server reads for a token."""
    if arm.kind == LLAMACPP:
        return Path(model.gguf).stat().st_size
    stored = _weight_bytes(Path(model.target_of(arm)))
    return 2 * stored if arm.kind == NAIVE else stored  # stored in 16 bits, computed in 32


def _weight_bytes(folder: Path) -> int:
    """Of all tensors but an embedding table that has its own head: a token reads one row of it."""
    sizes: dict[str, int] = {}
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as content:
            (length,) = struct.unpack("<Q", content.read(8))
            header = json.loads(content.read(length))
        for name, tensor in header.items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                sizes[name] = end - begin
    if _HEAD in sizes:
        sizes.pop(_EMBEDDING, None)
    return sum(sizes.values())
