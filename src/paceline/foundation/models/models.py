"""Load a target and its draft with transformers, and check that they fit together.

Models are folders in Hugging Face layout, or names there, which transformers' hub client fetches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.compatibility.cpu_formats import choose_cpu_dtype
from paceline.foundation.compatibility.vocabularies import compare_vocabularies
from paceline.foundation.machine.cpu_info import read_cpu_flags
from paceline.foundation.models.eagle_head import is_eagle3_head
from paceline.foundation.models.values import DraftError
from paceline.foundation.named_models import (
    MODEL_NAMES,
    NamedModelMissing,
    drafter_folder,
    target_of,
)

DEVICES = ("auto", "cpu", "cuda")


def choose_device(asked: str) -> torch.device:
    """The device of `--device`; DraftError for cuda where torch finds no GPU."""
    has_gpu = torch.cuda.is_available()
    if asked == "cuda" and not has_gpu:
        raise DraftError(
            "--device is cuda, and torch finds no GPU on this machine; use --device cpu"
        )
    return torch.device("cuda" if has_gpu and asked != "cpu" else "cpu")


def serving_dtype(device: torch.device) -> torch.dtype:
    """Numbers as the model is served with, so that acceptance equals that in service."""
    if device.type == "cuda":
        return torch.bfloat16
    name, _ = choose_cpu_dtype(read_cpu_flags())
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def find_folder(model: str) -> Path:
    """The folder of a model; one named as on Hugging Face is fetched. DraftError without one."""
    try:
        folder = Path(target_of(model))
    except NamedModelMissing as missing:
        raise DraftError(str(missing)) from None
    if not folder.is_dir():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        try:
            folder = Path(snapshot_download(model))
        except (HFValidationError, HfHubHTTPError, OSError) as error:
            raise DraftError(
                f"{model} is neither a folder nor a model that Hugging Face provides "
                f"({_first_line(error)}); give a folder with config.json and weights"
                f"{did_you_mean(model, MODEL_NAMES)}"
            ) from error
    if not (folder / "config.json").is_file():
        raise DraftError(f"{folder} has no config.json; give a model folder in Hugging Face layout")
    return folder


def find_draft_folder(draft: str) -> Path:
    """The folder of a drafter; one named as a model of ours is the drafter of that model.
    DraftError without one."""
    return find_folder(drafter_folder(draft))


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a model folder."""
    from transformers import AutoTokenizer

    _refuse_head(folder)

    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise DraftError(
            f"{folder} has no tokenizer that transformers reads: {_first_line(error)}"
        ) from error


def load_config(folder: Path) -> Any:
    """The configuration of a model folder."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise DraftError(
            f"{folder}/config.json is not a configuration that transformers knows: "
            f"{_first_line(error)}"
        ) from error


def load_model(folder: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """The causal language model of a folder, for inference: evaluation mode, no gradients."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    _refuse_head(folder)

    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise DraftError(
            f"transformers cannot load {folder} as a causal language model: {_first_line(error)}"
        ) from error
    return model.to(device).eval().requires_grad_(False)


def num_parameters(config: Any) -> int:
    """The number of weights of a configuration, without allocating them."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return int(AutoModelForCausalLM.from_config(config).num_parameters())


def max_positions(*configs: Any) -> int:
    """The longest text that all of the models read."""
    found = [getattr(config, "max_position_embeddings", None) for config in configs]
    return min((value for value in found if value), default=2048)


def vocabulary_size(config: Any) -> int:
    """The number of embedded tokens, padding included."""
    return int(config.get_text_config().vocab_size)


def stop_token_ids(folder: Path, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer, as vLLM collects them; never empty."""
    from transformers import GenerationConfig

    found: set[int] = set()
    sources = [tokenizer.eos_token_id, getattr(load_config(folder), "eos_token_id", None)]
    if (folder / "generation_config.json").is_file():
        sources.append(GenerationConfig.from_pretrained(folder).eos_token_id)
    for value in sources:
        found.update(value if isinstance(value, list) else [] if value is None else [value])
    if not found:
        raise DraftError(
            f"{folder} names no token that ends an answer; add eos_token_id to "
            "generation_config.json"
        )
    return frozenset(found)


def check_same_tokens(target: Path, draft: Path, tokenizers: tuple[Any, Any]) -> None:
    """Raise DraftError unless each token has the same id in both models.

    The number of embedded tokens may differ by padding.
    """
    fit = compare_vocabularies(*(tokenizer.get_vocab() for tokenizer in tokenizers))
    if not fit.has_same_ids:
        raise DraftError(
            f"{draft} has another vocabulary than {target}: they share the text of "
            f"{fit.num_shared:,} of {fit.num_target:,} tokens, but not all ids. A draft is "
            "distilled and measured on the target's token ids: give a draft with the target's "
            "tokenizer, or train a new one without --draft"
        )


def _refuse_head(folder: Path) -> None:
    if is_eagle3_head(folder):
        raise DraftError(
            f"{folder} is an EAGLE-3 head, which runs inside its target only: it is trained by "
            "`paceline draft train --head`, measured by `paceline draft eval`, and served by "
            "`paceline serve --draft`"
        )


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
