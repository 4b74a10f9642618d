"""The bundled pair: paths of a small target, its draft model and the held-out prompts.

For other packages: the three functions below. `tools/demo_recipe` made the pair.
"""

from pathlib import Path

_MODELS = Path(__file__).resolve().parent / "models"


def target_path() -> Path:
    """Folder of the bundled target model, in Hugging Face layout."""
    return _MODELS / "target"


def draft_path() -> Path:
    """Folder of the bundled draft model, in Hugging Face layout; same tokenizer as the target."""
    return _MODELS / "draft"


def heldout_path() -> Path:
    """File of held-out prompts: a list of {task, messages or prompt, max_tokens, reference}."""
    return Path(__file__).resolve().parent / "heldout.json"
