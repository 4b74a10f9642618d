"""Can this folder be served, and do these two fit together?

Reads configuration and tokenizer files of models on disk, before anything is loaded, so that a
fault is one sentence and not a stack trace after a minute. Models named as on Hugging Face are
left to vLLM, which fetches them.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HUGGING_FACE_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# Where vLLM itself warns of a very small intersection (`v1/spec_decode/vocab_mapping.py`).
_MIN_SHARED_TOKENS = 100
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


@dataclass(frozen=True, slots=True)
class PairFit:
    """How the token ids of a target and its draft go together."""

    has_same_ids: bool
    """A token has the same id in both, and both embed as many. Otherwise ids have to be mapped."""
    note: str = ""
    """What is lost by mapping, in words; empty when nothing is."""


def check_pair(target: Path, draft: Path) -> PairFit:
    """Whether `draft` can draft for `target`; ModelUnfit when they hardly share a token.

    With one tokenizer the number of embedded tokens may still differ, by padding. With two, vLLM
    maps ids by the text of the tokens, and drafts only those that both have.
    """
    check_model(str(target))
    check_model(str(draft))
    target_vocabulary, draft_vocabulary = _vocabulary(target), _vocabulary(draft)
    if target_vocabulary is None or draft_vocabulary is None:
        is_one_missing = (target_vocabulary is None) != (draft_vocabulary is None)
        if is_one_missing or _digest(target) != _digest(draft):
            raise ModelUnfit(
                f"{draft} cannot be compared with {target}: one of them has no readable "
                "tokenizer.json. Add it, or use --draft ngram"
            )
    elif target_vocabulary != draft_vocabulary:
        texts = set(map(_text_of_token, target_vocabulary))
        num_shared = len(texts & set(map(_text_of_token, draft_vocabulary)))
        shares = (
            f"it has {num_shared:,} of {len(target_vocabulary):,} tokens of the target's tokenizer"
        )
        if num_shared < _MIN_SHARED_TOKENS:
            raise ModelUnfit(
                f"{draft} cannot draft for {target}: {shares}, and at least "
                f"{_MIN_SHARED_TOKENS} are needed. Take a draft of the target's family, or "
                "--draft ngram"
            )
        return PairFit(has_same_ids=False, note=f"{shares} and drafts only those")
    return PairFit(has_same_ids=_num_embedded(target) == _num_embedded(draft))


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


def _text_of_token(token: str) -> str:
    """As vLLM compares tokens of two tokenizers: a word's leading space is a space."""
    return f" {token[1:]}" if token.startswith(("\u0120", "\u2581")) else token


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
