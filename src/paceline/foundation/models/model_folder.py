"""Check model folders before anything is loaded, and that a draft fits its target.

Reads configuration and tokenizer files, so that a fault is reported in one sentence instead of a
stack trace after a minute. Models named as on Hugging Face are left to vLLM, which fetches them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.compatibility.vocabularies import (
    MIN_SHARED_TOKENS,
    VocabularyFit,
    compare_vocabularies,
)
from paceline.foundation.compatibility.weight_files import loaded_bytes

_HUGGING_FACE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/\w[\w.-]*", re.ASCII)
"""A name begins with a letter or a digit; ./x and ../x are paths."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf", "*.pt")


class ModelUnfit(Exception):
    """A model cannot be served as configured; the message says why and what is allowed."""


def check_model(model: str, other_names: Sequence[str] = ()) -> None:
    """Raise ModelUnfit unless `model` is a folder in Hugging Face layout or may be a name there.

    `other_names` are what the caller also accepts, for the message.
    """
    folder = Path(model)
    if folder.is_dir():
        _read_json(folder / "config.json", f"{folder} is not a model folder in Hugging Face layout")
        if not any(True for pattern in _WEIGHTS for _ in folder.glob(pattern)):
            raise ModelUnfit(f"{folder} contains no weights; it needs one of {', '.join(_WEIGHTS)}")
    elif folder.exists():
        raise ModelUnfit(f"{model} is a file; give the folder that contains config.json")
    elif folder.is_symlink():
        raise ModelUnfit(f"{model} is a link to a folder that does not exist")
    elif not _HUGGING_FACE_NAME.fullmatch(model):
        raise ModelUnfit(
            f"{model} does not exist; give "
            f"{''.join(f'{name}, ' for name in other_names)}a model folder, or a Hugging Face name "
            f"like Qwen/Qwen2.5-7B-Instruct{did_you_mean(model, other_names)}"
        )


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What the files of a target and its draft model say of their token ids."""

    num_embedded: tuple[int, int]
    """Tokens that target and draft embed."""
    vocabularies: VocabularyFit
    missing_special_tokens: tuple[str, ...] = ()
    """Special tokens of the target's chat template, or its end of text, that the draft lacks."""


@dataclass(frozen=True, slots=True)
class PairFit:
    """How the token ids of a target and its draft relate."""

    has_same_ids: bool
    """A token has the same id in both, and both embed the same number. Otherwise ids are mapped."""
    note: str = ""
    """What the mapping loses, in words; empty if nothing."""
    facts: PairFacts | None = field(default=None, compare=False)
    """None where the vocabularies could not be read and the files are equal."""


def check_pair(target: Path, draft: Path) -> PairFit:
    """Return how `draft` can draft for `target`; raise ModelUnfit if they share too few tokens.

    With one tokenizer, the number of embedded tokens may still differ by padding. With two, vLLM
    maps ids by the text of the tokens, and drafts only tokens that both have.
    """
    check_model(str(target))
    check_model(str(draft))
    facts = read_pair(target, draft)
    if facts is None:
        is_one_missing = (_vocabulary(target) is None) != (_vocabulary(draft) is None)
        if is_one_missing or _tokenizer_digest(target) != _tokenizer_digest(draft):
            raise ModelUnfit(
                f"{draft} cannot be compared with {target}: at least one of them has no readable "
                "tokenizer.json. Add it, or use --draft ngram"
            )
        return PairFit(has_same_ids=_num_embedded(target) == _num_embedded(draft))
    fit = facts.vocabularies
    if fit.has_same_ids:
        return PairFit(len(set(facts.num_embedded)) == 1, facts=facts)
    shared = f"it has {fit.num_shared:,} of {fit.num_target:,} tokens of the target's tokenizer"
    if not fit.is_usable:
        raise ModelUnfit(
            f"{draft} cannot draft for {target}: {shared}, and at least {MIN_SHARED_TOKENS} are "
            "needed. Use a draft of the target's family, or --draft ngram"
        )
    return PairFit(has_same_ids=False, note=f"{shared} and drafts only those", facts=facts)


def read_pair(target: Path, draft: Path) -> PairFacts | None:
    """Compare the tokenizers of two folders; None if one has no vocabulary that can be read.

    Raises ModelUnfit for files that are broken.
    """
    target_vocabulary, draft_vocabulary = _vocabulary(target), _vocabulary(draft)
    if target_vocabulary is None or draft_vocabulary is None:
        return None
    missing: tuple[str, ...] = ()
    if target_vocabulary != draft_vocabulary:
        needed = _special_tokens_in_use(target)
        missing = tuple(token for token in needed if token not in draft_vocabulary)
    return PairFacts(
        (_num_embedded(target), _num_embedded(draft)),
        compare_vocabularies(target_vocabulary, draft_vocabulary),
        missing,
    )


def served_name_of(model: str) -> str:
    """Return the model id for clients: a Hugging Face name as it is, or the last part of a path."""
    folder = Path(model)
    return folder.resolve().name if folder.is_dir() else model


def weights_bytes(model: str) -> int | None:
    """Return the size of the weights that vLLM loads; None for a model that is not on this disk."""
    folder = Path(model)
    if not folder.is_dir():
        return None
    return loaded_bytes(folder)


def _vocabulary(folder: Path) -> dict[str, int] | None:
    """Return token to id, added tokens included; None without a tokenizer.json that has them."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    fault = f"{folder} has a broken tokenizer"
    content = _read_json(path, fault)
    try:
        entries = content.get("model", {}).get("vocab")
        if isinstance(entries, list):  # unigram: a list of [token, score]
            entries = {entry[0]: index for index, entry in enumerate(entries)}
        if not isinstance(entries, dict):
            return None
        added = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ModelUnfit(
            f"{fault}: tokenizer.json has another form ({type(error).__name__}: {error})"
        ) from None
    return {**entries, **added}


def _special_tokens_in_use(folder: Path) -> list[str]:
    """Return the special tokens that stand in the chat template or end a text, in their order."""
    fault = f"{folder} has a broken tokenizer"
    added = _read_json(folder / "tokenizer.json", fault).get("added_tokens") or ()
    settings, template = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    configured = _read_json(settings, fault) if settings.is_file() else {}
    texts = str(configured.get("chat_template", ""))
    if template.is_file():
        texts += template.read_text(encoding="utf-8", errors="replace")
    end = configured.get("eos_token")
    end = end.get("content") if isinstance(end, dict) else end
    special = [token["content"] for token in added if token.get("special")]
    return [token for token in special if token == end or token in texts]


def _tokenizer_digest(folder: Path) -> str:
    """Return a digest of the tokenizer files other than tokenizer.json."""
    digest = hashlib.sha256()
    for name in ("tokenizer.model", "tekken.json", "vocab.json", "merges.txt"):
        path = folder / name
        if path.is_file():
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()


def _num_embedded(folder: Path) -> int:
    config = _read_json(folder / "config.json", f"{folder} is not a model folder")
    texts = config.get("text_config")
    size = config.get("vocab_size", texts.get("vocab_size") if isinstance(texts, dict) else None)
    if not isinstance(size, int):
        raise ModelUnfit(f"{folder}/config.json has no vocab_size")
    return size


def _read_json(path: Path, fault: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelUnfit(f"{fault}: {path.name} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ModelUnfit(f"{fault}: {path.name} is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ModelUnfit(f"{fault}: {path.name} is not a JSON object")
    return content
