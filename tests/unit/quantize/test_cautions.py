"""When not to quantize: small models, code and mathematics."""

from __future__ import annotations

from pathlib import Path

from paceline.foundation.quantized.calibration import Calibration
from paceline.foundation.quantized.job import Job
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.foundation.quantized.source_model import SourceModel, StoredTensor
from paceline.workbench.quantize.cautions import find_cautions


def job(name: str, num_params: int, calibration: Calibration | None = None) -> Job:
    tensors = {"w": StoredTensor("f", (num_params,), num_params)}
    return Job(SourceModel(Path(name), {}, tensors), SCHEMES["awq"], 128, calibration, 0)


def test_a_large_model_for_conversation_has_no_caution() -> None:
    assert find_cautions(job("chat-70b", 70 * 10**9), ["Tell me a story."]) == []


def test_a_small_model_has_one() -> None:
    [caution] = find_cautions(job("chat-7b", 7 * 10**9), ["Tell me a story."])
    assert "7B parameters: below 13B" in caution


def test_models_and_prompts_for_code_and_mathematics_have_one() -> None:
    [by_name] = find_cautions(job("Some-Coder-32B", 32 * 10**9), [])
    assert "is called Some-Coder-32B" in by_name
    texts = ["def f():\n    return 1", r"Show that \frac{1}{2} = 0.5", "Hello.", "How are you?"]
    [by_text] = find_cautions(job("chat-70b", 70 * 10**9), texts)
    assert "50% of the calibration prompts" in by_text
    assert "4 bits" in by_text


def test_a_model_in_the_cache_of_hugging_face_is_known_by_its_name() -> None:
    [caution] = find_cautions(job("hub/models--Qwen--Some-Coder/snapshots/0a1b", 32 * 10**9), [])
    assert "is called Qwen/Some-Coder" in caution


def test_built_in_prompts_are_no_substitute_for_own_ones() -> None:
    built_in = Calibration(((1,),), "mixed", None, 1, 1, 0)
    [caution] = find_cautions(job("chat-70b", 70 * 10**9, built_in), ["Hello."])
    assert "built-in workload 'mixed'" in caution
