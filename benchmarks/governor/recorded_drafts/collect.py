"""Record the drafts of `recordings` with the bundled pair, on one thread of a CPU.

The target produces each text first. Then, from every position of a text at once, the draft model
drafts 8 tokens, and each draft gets verdicts from their exact law given the text:

- Greedy: token j is accepted where the draft's likeliest token is the text's.
- Sampled: the text's token is what the target sampled, so by Bayes' rule the draft of the step was
  accepted there with probability min(1, q(x) / p(x)), with target probability p and draft
  probability q of the text's token x.

From its rejected token on, a draft leaves the text: that token is drawn from q - p where it is
positive, the following ones from the draft model's own output. Drafts from all positions share one
pass per depth: a mask lets each see its own text and its own tokens only.

All texts take some 7 minutes of processor time, estimated from 25 s for `--num-texts 4`, 28 texts.
Greedy kinds repeat exactly, up to the rounding of sums. Sampled ones follow one generator through
all kinds, so they repeat with the same number of texts only.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.governor.recorded_drafts.prompts import NUM_TEXTS, Prompts, Tokens, build_prompts
from benchmarks.governor.recorded_drafts.recordings import (
    KINDS,
    MAX_DRAFT_TOKENS,
    pack,
    write_recordings,
)
from paceline import demo

_EOS = 2
_LEAST_TOKENS = 8
"""Shorter texts are left out."""
_MASKED = torch.finfo(torch.float32).min


class Recorder:
    """The pair, and one generator for all draws."""

    def __init__(self) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(demo.target_path()))
        self._target = _load(demo.target_path())
        self._draft = _load(demo.draft_path())
        self._generator = torch.Generator().manual_seed(0)

    @torch.inference_mode()
    def produce_texts(self, prompts: Prompts, temperature: float) -> list[tuple[Tokens, int]]:
        """The target's text after each prompt, as far as the drafts of its last position look
        ahead, and the number of its positions."""
        width = max(map(len, prompts.tokens))
        padding = self.tokenizer.pad_token_id or 0
        ids = torch.full((len(prompts.tokens), width), padding)
        is_token = torch.zeros_like(ids)
        for row, tokens in enumerate(prompts.tokens):
            ids[row, width - len(tokens) :] = torch.tensor(tokens)
            is_token[row, width - len(tokens) :] = 1
        cache, produced = DynamicCache(), []
        positions = (is_token.cumsum(1) - 1).clamp(min=0)
        for _ in range(prompts.output_tokens + MAX_DRAFT_TOKENS + 1):
            logits = self._target(
                input_ids=ids,
                attention_mask=is_token,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            ids = self._sample(logits, temperature)[:, None]
            produced.append(ids)
            positions = positions[:, -1:] + 1
            is_token = torch.cat([is_token, torch.ones_like(ids)], 1)
        rows: list[Tokens] = torch.cat(produced, 1).tolist()
        return [_cut(row, prompts) for row in rows]

    @torch.inference_mode()
    def record_drafts(
        self, prompt: Tokens, text: Tokens, num_positions: int, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Accepted tokens, (num_positions,), and top probabilities, (num_positions,
        MAX_DRAFT_TOKENS), of drafts from the first positions of the text."""
        ids, tokens = torch.tensor([prompt + text]), torch.tensor(text)
        num_tokens, first = len(text), len(prompt) - 1
        cache = DynamicCache()
        draft_logits = self._draft(input_ids=ids, past_key_values=cache, use_cache=True).logits
        draft_logits = draft_logits[0, first : first + num_tokens].float()
        draft_probs = (draft_logits / (temperature or 1.0)).softmax(-1)
        rejected_weights = None
        if temperature:
            target_logits = self._target(input_ids=ids).logits[0, first : first + num_tokens]
            target_probs = (target_logits.float() / temperature).softmax(-1)
            rejected_weights = (draft_probs - target_probs).clamp(min=0) + 1e-12
            ratio = draft_probs.gather(1, tokens[:, None]) / target_probs.gather(1, tokens[:, None])
            acceptance = ratio[:, 0].clamp(max=1)
        else:
            acceptance = (draft_logits.argmax(-1) == tokens).float()
        accepted = self._draw_accepted(acceptance, num_positions)

        starts, current = torch.arange(num_positions), draft_probs[:num_positions]
        top_probs = torch.zeros(num_positions, MAX_DRAFT_TOKENS)
        for depth in range(MAX_DRAFT_TOKENS):
            top_probs[:, depth] = current.max(-1).values
            places = (starts + depth).clamp(max=num_tokens - 1)
            drawn = self._draw(current) if temperature else current.argmax(-1)
            if rejected_weights is not None:
                rejects = (depth == accepted) & (starts + depth < num_tokens)
                if rejects.any():
                    drawn[rejects] = self._draw(rejected_weights[places[rejects]])
            drafted = torch.where(depth < accepted, tokens[places], drawn)
            if depth == MAX_DRAFT_TOKENS - 1:
                break
            logits = self._draft(
                input_ids=drafted[None],
                attention_mask=_mask(ids.shape[1], first + starts, depth),
                position_ids=(len(prompt) + starts + depth)[None],
                past_key_values=cache,
                use_cache=True,
            ).logits[0]
            current = (logits.float() / (temperature or 1.0)).softmax(-1)
        return accepted, top_probs

    def _draw_accepted(self, acceptance: torch.Tensor, num_positions: int) -> torch.Tensor:
        """The accepted tokens of a draft from each position, by each token's acceptance."""
        padded = torch.cat([acceptance, torch.zeros(MAX_DRAFT_TOKENS)])
        chances = padded.unfold(0, MAX_DRAFT_TOKENS, 1)[:num_positions]
        draws = torch.rand(num_positions, MAX_DRAFT_TOKENS, generator=self._generator)
        return (draws < chances).long().cumprod(1).sum(1)

    def _sample(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        if not temperature:
            return logits.argmax(-1)
        return self._draw((logits / temperature).softmax(-1))

    def _draw(self, weights: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(weights, 1, generator=self._generator)[:, 0]


def _load(path: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        str(path), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


def _cut(text: Tokens, prompts: Prompts) -> tuple[Tokens, int]:
    if prompts.ends_at_eos and _EOS in text:
        text = text[: text.index(_EOS) + 1]
        return text, min(prompts.output_tokens, len(text))
    return text, prompts.output_tokens


def _mask(num_text: int, last_seen: torch.Tensor, depth: int) -> torch.Tensor:
    """The mask of the pass after `depth`: each draft sees its text up to `last_seen` and its own
    tokens; the cache has those of all drafts, depth by depth."""
    num_drafts = len(last_seen)
    mask = torch.full((num_drafts, num_text + (depth + 1) * num_drafts), _MASKED)
    mask[:, :num_text][torch.arange(num_text) <= last_seen[:, None]] = 0
    drafts = torch.arange(num_drafts)
    for earlier in range(depth + 1):
        mask[drafts, num_text + earlier * num_drafts + drafts] = 0
    return mask[None, None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the .npz file to write")
    parser.add_argument(
        "--num-texts", type=int, default=NUM_TEXTS, metavar="N", help="of each kind"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recorder = Recorder()
    prompts = build_prompts(recorder.tokenizer, arguments.num_texts)
    recorded = []
    for index, kind in enumerate(KINDS):
        chosen = prompts[kind.name]
        texts = recorder.produce_texts(chosen, kind.temperature)
        for prompt, (text, num_positions) in zip(chosen.tokens, texts, strict=True):
            if num_positions >= _LEAST_TOKENS:
                found = recorder.record_drafts(prompt, text, num_positions, kind.temperature)
                recorded.append((index, found[0].numpy(), found[1].numpy()))
        print(f"{kind.name}: {len(texts)} texts", flush=True)
    write_recordings(arguments.output, pack(recorded))


if __name__ == "__main__":
    main()
