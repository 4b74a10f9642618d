"""A small data folder and a tiny model shape, shared by the tests of the recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from demo_recipe import corpus, dataset
from demo_recipe.tokenizer import answer_head, encode_message, train_tokenizer


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one small file as source and a few packed dialogues."""
    folder = tmp_path_factory.mktemp("data")
    text = Path(corpus.__file__).read_text()
    tokenizer = train_tokenizer([text])
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(text * 3, add_special_tokens=False).ids
    np.save(folder / "source.npy", np.asarray(ids * 3, np.uint16))
    head = answer_head(tokenizer)
    pairs = [
        (
            encode_message(tokenizer, "user", f"Say {n}") + head,
            encode_message(tokenizer, "assistant", str(n))[len(head) :],
        )
        for n in range(200)
    ]
    assert dataset.write_rows(folder, "tasks", pairs) == 200
    return folder
