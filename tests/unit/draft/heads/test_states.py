"""The target's hidden states: those that vLLM would pass to a head, stored once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.foundation.models import passes
from paceline.foundation.models.heads import states as states_module
from paceline.foundation.models.heads.states import StoredStates, states_of, store_states
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.values import Answer, DraftError, Interrupted, Sampling
from unit.draft.conftest import TinyPair

TEXTS = [
    Answer(f"{n}", f"{n}", Sampling(0.0), (4 + n, 9), tuple(range(10, 16 + n)), 6 + n)
    for n in range(6)
]
LENGTHS = [len(text.prompt_ids) + len(text.token_ids) for text in TEXTS]


@pytest.fixture(scope="module")
def target(pair: TinyPair) -> Any:
    return load_model(pair.target, torch.float32, torch.device("cpu"))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of texts in the batches that were computed, of two or three texts each."""
    sizes: list[int] = []

    def counted(target: Any, texts: Any, layers: Any) -> Any:
        sizes.append(len(texts))
        return states_of(target, texts, layers)

    monkeypatch.setattr(passes, "_MAX_BATCH_TOKENS", 27)
    monkeypatch.setattr(states_module, "states_of", counted)
    return sizes


def store(target: Any, file: Path, stop: Any = None) -> StoredStates:
    stored = StoredStates(file, LENGTHS, 1, 32)
    with draft_progress() as progress:
        store_states(target, TEXTS, [1], stored, progress=progress, stop=stop or StopRequest())
    return stored


def test_a_head_reads_what_a_layer_of_the_target_reads(target: Any) -> None:
    """Padding of a shorter text changes nothing; the last states give the target's logits."""
    short, long = TEXTS[0], TEXTS[5]
    found = states_of(target, [short, long], [0, 1])
    with pytest.raises(DraftError, match=r"the output of the target's last layer, 2, before its"):
        states_of(target, [short], [2])
    for text, states in zip((short, long), found, strict=True):
        ids = torch.tensor([[*text.prompt_ids, *text.token_ids]])
        embedded = target.get_input_embeddings()(ids)
        torch.testing.assert_close(states.aux[:, :32], embedded[0])
        inputs: list[Any] = []
        hook = target.model.layers[1].register_forward_pre_hook(
            lambda _, args, kwargs, inputs=inputs: inputs.append(
                args[0] if args else kwargs["hidden_states"]
            ),
            with_kwargs=True,
        )
        logits = target(ids).logits[0]
        hook.remove()
        torch.testing.assert_close(states.aux[:, 32:], inputs[0][0])
        torch.testing.assert_close(target.lm_head(states.last), logits)


def test_an_interrupted_run_continues_with_the_next_batch(
    target: Any, tmp_path: Path, computed: list[int]
) -> None:
    class StopAfterTwo:
        num_checks = 0

        def raise_if_set(self) -> None:
            self.num_checks += 1
            if self.num_checks > 2:
                raise Interrupted

    whole = store(target, tmp_path / "whole.bin")
    num_batches = len(computed)
    assert num_batches > 2
    computed.clear()
    with pytest.raises(Interrupted):
        store(target, tmp_path / "part.bin", StopAfterTwo())
    part = store(target, tmp_path / "part.bin")
    assert len(computed) == num_batches
    for index in range(len(TEXTS)):
        assert torch.equal(part[index].aux, whole[index].aux)
        assert torch.equal(part[index].last, whole[index].last)
        assert torch.equal(part.log_normalisers(index), whole.log_normalisers(index))


def test_probabilities_of_stored_states_sum_to_one(target: Any, tmp_path: Path) -> None:
    """The states are of 16 bits, and the normalisers are theirs, exactly."""
    stored = store(target, tmp_path / "states.bin")
    for index, text in enumerate(TEXTS):
        start = len(text.prompt_ids)
        logits = target.lm_head(stored[index].last[start:].float())
        expected = logits.logsumexp(dim=-1)
        torch.testing.assert_close(
            stored.log_normalisers(index)[start:], expected, rtol=0, atol=1e-5
        )
        assert not stored.log_normalisers(index)[:start].any()


def test_states_of_other_texts_are_not_used(
    target: Any, tmp_path: Path, computed: list[int]
) -> None:
    store(target, tmp_path / "states.bin")
    computed.clear()
    assert StoredStates(tmp_path / "states.bin", [*LENGTHS, 4], 1, 32).num_batches == 0
    store(target, tmp_path / "states.bin")
    assert computed
