"""The layers of the decoders that the own quantization knows."""

from __future__ import annotations

from paceline.foundation.quantized.errors import QuantizeError
from paceline.foundation.quantized.schemes import INPUT_MULTIPLE, Scheme
from paceline.foundation.quantized.source_model import SourceModel

_KNOWN = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")

LINEARS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
"""The matrices of a decoder layer, all of which are quantized."""

READERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    ("self_attn.v_proj", ("self_attn.o_proj",)),
    ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
    ("mlp.up_proj", ("mlp.down_proj",)),
)
"""A module whose output channels may be divided by a scale, and the matrices that read them. They
are multiplied by it, and the layer computes the same."""

FUSED: tuple[tuple[str, ...], ...] = (READERS[0][1], READERS[2][1])
"""Matrices that vLLM joins into one; NVFP4 wants one global scale for each such group."""

IGNORED = ("lm_head",)


def why_unsupported(source: SourceModel, scheme: Scheme) -> str:
    """Return why the own quantization cannot take the model; "" if it can."""
    if source.architecture not in _KNOWN:
        return (
            f"the architecture is {source.architecture}; Paceline's own quantization knows "
            f"{', '.join(_KNOWN)}"
        )
    expected = {f"{name}.weight" for name in LINEARS}
    # Tensors that are named otherwise, or not in the index, would be missing in the result.
    for layer in range(max(source.num_layers, int(source.config.get("num_hidden_layers") or 0))):
        missing = sorted(
            name for name in expected if f"model.layers.{layer}.{name}" not in source.tensors
        )
        if missing:
            return f"layer {layer} has no {missing[0]}"
    layer_types = set(source.config.get("layer_types") or ())
    if scheme.needs_calibration and len(layer_types) > 1:
        return f"{scheme.name} needs layers of one attention type, and the model has {layer_types}"
    return ""


def check_shapes(source: SourceModel, scheme: Scheme) -> set[int]:
    """Return the numbers of inputs of the matrices. Raises QuantizeError if one cannot be served.

    vLLM's kernels want multiples of 32 (4 bits) or 16 (8 bits).
    """
    multiple = INPUT_MULTIPLE if scheme.bits == 4 else 16
    sizes: set[int] = set()
    for name, tensor in source.tensors.items():
        at = source.layer_of(name)
        if at is None or at[1].removesuffix(".weight") not in LINEARS or len(tensor.shape) != 2:
            continue
        outputs, inputs = tensor.shape
        if inputs % multiple or outputs % multiple:
            raise QuantizeError(
                f"{name} has {outputs} outputs and {inputs} inputs; {scheme.name} needs multiples "
                f"of {multiple}"
            )
        sizes.add(inputs)
    return sizes


def can_scale_values(config: dict[str, object]) -> bool:
    """Return whether o_proj reads each output of v_proj once: no grouped-query attention."""
    heads = config.get("num_attention_heads")
    return config.get("num_key_value_heads", heads) == heads
