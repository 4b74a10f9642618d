"""Generate the target's answers in vLLM: several times as fast as transformers, from some hundred
prompts on.

As in `generation`, nothing of the model's own generation settings applies. The same batch and seed
give the same answers on the same machine and version of vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.values import Answer, DraftError, EncodedPrompt, Sampling

_KV_CACHE_BYTES = 4 * 1024**3
"""Of an engine on CPUs. Chosen: a batch of 512 answers of SmolLM2-135M stays cached at 350 tokens
each, prompts included, for the requests of what follows their ends."""
_SEEDS_PER_BATCH = 4096
"""Chosen: above twice the prompts of a batch, so that no two texts are drawn with the same seed."""
_MAX_NUM_SEQS = 128
"""On two CPU cores, 128 requests at once gave 656 tokens/s of SmolLM2-135M, and transformers 214
with 32 and 263 with 96."""


def load_engine(
    folder: Path, dtype: Any, max_positions: int, seed: int, *, compiles: bool = True
) -> Any:
    """An engine of vLLM in processes of its own; `stop_engine` ends them. DraftError without.

    `dtype` is a name of vLLM's, such as bfloat16.
    """
    try:
        from vllm import LLM
        from vllm.platforms import current_platform
    except ImportError as error:
        raise DraftError(f"--engine is vllm, which cannot be imported ({error})") from error
    options: dict[str, Any] = {"max_num_seqs": _MAX_NUM_SEQS}
    if current_platform.is_cpu():
        options["kv_cache_memory_bytes"] = _KV_CACHE_BYTES
    try:
        return LLM(
            str(folder),
            dtype=dtype,
            seed=seed % 2**31,
            max_model_len=max_positions,
            generation_config="vllm",
            disable_log_stats=True,
            enforce_eager=not compiles,
            **options,
        )
    except (ValueError, RuntimeError) as error:
        raise DraftError(
            f"vLLM cannot be started for --engine vllm: {error}. Its log above says more; "
            "--engine transformers does without it"
        ) from error


def stop_engine(engine: Any) -> None:
    """End its processes, which frees their memory."""
    engine.llm_engine.engine_core.shutdown()


def generate_in_engine(
    engine: Any,
    prompts: Sequence[EncodedPrompt],
    sampling: Sampling,
    *,
    stop_ids: AbstractSet[int],
    num_after_end: int,
    seed: int,
    stop: StopRequest,
) -> list[Answer]:
    """As `generation.generate_answers`. Raises Interrupted before and after generating only, and
    DraftError where the engine ends.

    What follows an answer's end is the text of a second request, whose prompt is the first with its
    answer: vLLM stops there, or does not stop at all.
    """
    from vllm import SamplingParams
    from vllm.v1.engine.exceptions import EngineDeadError

    def seed_of(index: int, phase: int) -> int:
        return (seed * _SEEDS_PER_BATCH + 2 * index + phase) % 2**63

    def params(index: int, max_tokens: int, stop_token_ids: list[int], phase: int = 0) -> Any:
        return SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            max_tokens=max_tokens,
            stop_token_ids=stop_token_ids,
            ignore_eos=True,
            detokenize=False,
            seed=None if sampling.is_greedy else seed_of(index, phase),
        )

    def texts_of(starts: Sequence[tuple[int, ...]], each: Sequence[Any]) -> list[tuple[int, ...]]:
        try:
            found = engine.generate(
                [{"prompt_token_ids": list(start)} for start in starts], list(each), use_tqdm=False
            )
        except EngineDeadError as error:
            stop.raise_if_set()
            raise DraftError(
                "vLLM's engine ended while it generated answers. Its log above has the cause; "
                "without one there, the system may have killed it for memory (dmesg). "
                "--engine transformers does without it"
            ) from error
        # A signal reaches the engine, too, which then returns what it has.
        stop.raise_if_set()
        outputs = [one.outputs[0] for one in found]
        unfinished = {str(one.finish_reason) for one in outputs} - {"stop", "length"}
        if unfinished:
            raise DraftError(f"vLLM ended an answer early ({min(unfinished)}); repeat the command")
        return [tuple(one.token_ids) for one in outputs]

    stop.raise_if_set()
    starts = [prompt.token_ids for prompt in prompts]
    answers = texts_of(
        starts,
        [params(n, prompt.max_tokens, sorted(stop_ids)) for n, prompt in enumerate(prompts)],
    )
    ends: list[tuple[int, ...]] = [()] * len(prompts)
    if num_after_end:
        ended = [(*start, *answer) for start, answer in zip(starts, answers, strict=True)]
        ends = texts_of(ended, [params(n, num_after_end, [], phase=1) for n in range(len(prompts))])
    return [
        prompt.answered(sampling, (*answer, *end), len(answer))
        for prompt, answer, end in zip(prompts, answers, ends, strict=True)
    ]
