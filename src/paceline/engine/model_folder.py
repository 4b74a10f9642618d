"""Can this folder be served, and do these two fit together?

Reads configuration and tokenizer files of models on disk, before anything is loaded, so that a
fault is one sentence and not a stack trace after a minute. Models named as on Hugging Face are
left to vLLM, which fetches them.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

_HUGGING_FACE_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf", "*.pt")


class ModelUnfit(Exception):
    """A model cannot be served as asked; the message says what was given and what would do."""


def check_model(model: str) -> None:
    """ModelUnfit unless `model` is a folder in Hugging Face layout, or may be a name there."""
    folder = Path(model)
    if folder.is_dir():
        _read_json(folder / "config.json", f"{folder} is no model folder in Hugging Face layout")
        if not any(True for pattern in _WEIGHTS for _ in folder.glob(pattern)):
            raise ModelUnfit(f"{folder} holds no weights (looked for {', '.join(_WEIGHTS)})")
    elif folder.exists():
        raise ModelUnfit(f"{model} is a file; give the folder that holds config.json")
    elif not _HUGGING_FACE_NAME.fullmatch(model):
        raise ModelUnfit(
            f"{model} does not exist; give a model's folder, or a Hugging Face name like "
            "Qwen/Qwen2.5-7B-Instruct. Without a model the bundled pair is served"
        )


def check_pair(target: Path, draft: Path) -> bool:
    """Whether both embed the same number of tokens; ModelUnfit when they speak different tokens.

    Both must have the same vocabulary. The number of embedded tokens may differ by padding.
    """
    check_model(str(target))
    check_model(str(draft))
    target_vocabulary, draft_vocabulary = _vocabulary(target), _vocabulary(draft)
    if target_vocabulary is not None and draft_vocabulary is not None:
        differing = len(target_vocabulary.items() ^ draft_vocabulary.items())
        if differing:
            raise ModelUnfit(
                f"{draft} cannot draft for {target}: their tokenizers differ in {differing:,} "
                f"entries (target has {len(target_vocabulary):,}, draft "
                f"{len(draft_vocabulary):,}). Take a draft of the target's family, or --draft ngram"
            )
    elif _digest(target) != _digest(draft):
        raise ModelUnfit(
            f"{draft} cannot be compared with {target}: one of them has no readable "
            "tokenizer.json. Add it, or use --draft ngram"
        )
    return _num_embedded(target) == _num_embedded(draft)


def served_name_of(model: str) -> str:
    """The model id clients name: a Hugging Face name as it is, a folder by its last part."""
    folder = Path(model)
    return folder.resolve().name if folder.is_dir() else model


def weights_bytes(model: str) -> int | None:
    """Size of a folder's weights on disk; None for a model that is not on this disk."""
    folder = Path(model)
    if not folder.is_dir():
        return None
    return sum(path.stat().st_size for pattern in _WEIGHTS for path in folder.glob(pattern))


def _vocabulary(folder: Path) -> dict[str, int] | None:
    """Token to id, added tokens included; None without a tokenizer.json that says so."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    content = _read_json(path, f"{folder} has a broken tokenizer")
    entries = content.get("model", {}).get("vocab")
    if isinstance(entries, list):  # unigram: a list of [token, score]
        entries = {entry[0]: index for index, entry in enumerate(entries)}
    if not isinstance(entries, dict):
        return None
    added = {token["content"]: token["id"] for token in content.get("added_tokens", [])}
    return {**entries, **added}


def _digest(folder: Path) -> str:
    """Of whatever tokenizer files there are."""
    digest = hashlib.sha256()
    for name in ("tokenizer.model", "tekken.json", "vocab.json", "merges.txt"):
        path = folder / name
        if path.is_file():
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()


def _num_embedded(folder: Path) -> int:
    config = _read_json(folder / "config.json", f"{folder} is no model folder")
    size = config.get("vocab_size", config.get("text_config", {}).get("vocab_size"))
    if not isinstance(size, int):
        raise ModelUnfit(f"{folder}/config.json says no vocab_size")
    return size


def _read_json(path: Path, fault: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelUnfit(f"{fault}: {path.name} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ModelUnfit(f"{fault}: {path.name} is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ModelUnfit(f"{fault}: {path.name} holds no mapping")
    return content
