"""Quantize layer by layer with Paceline's own methods, into the files of an output folder."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from paceline.foundation.quantized.architecture import IGNORED, LINEARS, READERS, can_scale_values
from paceline.foundation.quantized.compression import (
    compress_layer,
    decompress_layer,
    quantization_config,
    scale_dtype,
)
from paceline.foundation.quantized.errors import QuantizeError
from paceline.foundation.quantized.job import Job, Made, OnProgress
from paceline.workbench.quantize.output_folder import OutputFolder
from paceline.workbench.quantize.own import awq, smoothquant
from paceline.workbench.quantize.own.channel_scales import InputSample, scale_layer
from paceline.workbench.quantize.own.gptq import SecondMoments, round_with_correction
from paceline.workbench.quantize.own.layer_inputs import LayerWalk, matrices_of
from paceline.workbench.quantize.own.shards import (
    read_layer,
    read_rest,
    read_shard,
    shard_name,
    write_index,
    write_shard,
)

_SAMPLED_ROWS = 512
"""Inputs on which scales are compared; chosen empirically for AWQ, where more change little."""
_METHODS = {
    "awq": "AWQ search over activation scales, symmetric groups with clipping",
    "gptq": "GPTQ without activation order, symmetric groups with clipping",
    "smoothquant": "SmoothQuant with a strength for each group of matrices",
}

_MakeLayer = Callable[[int, Path], dict[str, torch.Tensor]]
"""Returns the tensors of a layer by name within it, from its number and the file it will be in."""


def quantize_own(job: Job, output: OutputFolder, on_progress: OnProgress) -> Made:
    """Write all weights and their index. Layers that an earlier run has written are kept.

    Raises QuantizeError if the model cannot be run for calibration, or has weights that are no
    numbers.
    """
    num_layers = job.source.num_layers
    make_layer: _MakeLayer = (
        _Calibrated(job).layer if job.scheme.needs_calibration else partial(_rounded_layer, job)
    )
    for index in range(num_layers):
        on_progress("quantizing layers", index, num_layers)
        path = output.path / shard_name(index, num_layers)
        tensors = make_layer(index, path)
        if tensors:
            prefix = f"model.layers.{index}."
            write_shard(path, {prefix + name: tensor for name, tensor in tensors.items()})
    on_progress("quantizing layers", num_layers, num_layers)
    rest = read_rest(job.source)
    _refuse_non_finite(rest)
    write_shard(output.path / shard_name(num_layers, num_layers), rest)
    write_index(output.path)
    return Made(
        backend="own",
        method=_METHODS.get(job.scheme.name, "round to nearest"),
        versions={
            "python": platform.python_version(),
            **{
                name: importlib.metadata.version(name)
                for name in ("compressed-tensors", "safetensors", "torch", "transformers")
            },
        },
        ignored_layers=IGNORED,
    )


def own_quantization_config(job: Job) -> dict[str, Any]:
    """Return the `quantization_config` of what `quantize_own` writes."""
    return quantization_config(job.scheme, job.group_size)


def _refuse_non_finite(tensors: Mapping[str, torch.Tensor], prefix: str = "") -> None:
    """Raise QuantizeError for NaN and infinity: they would be rounded to some number."""
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise QuantizeError(
                f"{prefix}{name} of the source has values that are no finite numbers; download or "
                "export the model again"
            )


def _rounded_layer(job: Job, index: int, path: Path) -> dict[str, torch.Tensor]:
    """Round a layer to the nearest grid points; nothing if its file exists."""
    if path.exists():
        return {}
    tensors = read_layer(job.source, index)
    _refuse_non_finite(tensors, f"model.layers.{index}.")
    matrices = {name: tensors.pop(f"{name}.weight") for name in LINEARS}
    return tensors | compress_layer(matrices, job.scheme, job.group_size, job.source.dtype)


class _Calibrated:
    """The model in memory, quantized layer by layer on the calibration samples."""

    def __init__(self, job: Job) -> None:
        assert job.calibration is not None, f"{job.scheme.name} needs calibration"
        self._job = job
        self._group_size = job.group_size
        self._num_samples = len(job.calibration.samples)
        self._dtype = scale_dtype(job.scheme, job.source.dtype)
        self._walk = LayerWalk(_load(job.source.folder), job.calibration.samples)

    @torch.no_grad()
    def layer(self, index: int, path: Path) -> dict[str, torch.Tensor]:
        """Quantize layer `index`, or take it from its file; then run it for the next one."""
        layer = self._walk.layers[index]
        prefix = f"model.layers.{index}."
        made: dict[str, torch.Tensor] = {}
        if path.exists():
            stored = read_shard(path, prefix)
        else:
            _refuse_non_finite(layer.state_dict(), prefix)
            scales = None
            if self._job.scheme.name == "gptq":
                scales = self._gptq(index)
            else:
                self._scale(index)
            packed = compress_layer(
                matrices_of(layer), self._job.scheme, self._group_size, self._job.source.dtype,
                scales,
            )  # fmt: skip
            made = stored = self._other_tensors(index, layer) | packed
        self._set_weights(layer, stored)
        self._walk.advance(index)
        return made

    def _scale(self, index: int) -> None:
        """Scale the layer's matrices in place; the grid is chosen when they are stored."""
        samples = {
            readers[0]: InputSample(_SAMPLED_ROWS, self._num_samples, self._job.seed)
            for _, readers in READERS
        }
        self._walk.collect(index, {name: sample.add for name, sample in samples.items()})
        scale_layer(
            self._walk.layers[index],
            samples,
            self._search,
            scales_values=can_scale_values(self._job.source.config),
        )

    def _search(self, weights: Sequence[torch.Tensor], sample: InputSample) -> torch.Tensor:
        scheme = self._job.scheme
        if scheme.name == "smoothquant":
            return smoothquant.search_scales(weights, sample, scheme)
        return awq.search_scales(weights, sample, scheme, self._group_size, self._dtype)

    def _gptq(self, index: int) -> dict[str, torch.Tensor]:
        """Round the layer's matrices in place, and return the scales of their grids."""
        moments = {readers[0]: SecondMoments() for _, readers in READERS}
        self._walk.collect(index, {name: moment.add for name, moment in moments.items()})
        matrices, scales = matrices_of(self._walk.layers[index]), {}
        assert self._group_size is not None, "GPTQ has groups"
        for _, readers in READERS:
            for name in readers:
                rounded, scales[name] = round_with_correction(
                    matrices[name], moments[readers[0]].mean, self._job.scheme, self._group_size,
                    self._dtype,
                )  # fmt: skip
                matrices[name].copy_(rounded)
        return scales

    def _other_tensors(self, index: int, layer: Any) -> dict[str, torch.Tensor]:
        """Return the norms and biases as the layer has them now, in the format of the source.

        A stored tensor that the layer does not load, such as the `rotary_emb.inv_freq` of older
        checkpoints, is returned unchanged.
        """
        source = read_layer(self._job.source, index)
        now = layer.state_dict()
        return {
            name: now.get(name, tensor).to(tensor.dtype).clone()
            for name, tensor in source.items()
            if name.removesuffix(".weight") not in LINEARS
        }

    def _set_weights(self, layer: Any, stored: dict[str, torch.Tensor]) -> None:
        """Give the layer the weights that a server will compute with."""
        matrices = decompress_layer(stored, self._job.scheme, self._group_size)
        for name, weight in matrices_of(layer).items():
            weight.copy_(matrices[name])
        now = layer.state_dict()
        for name, tensor in stored.items():
            if name in now and name.removesuffix(".weight") not in LINEARS:
                now[name].copy_(tensor)


def _load(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    except Exception as error:
        raise QuantizeError(f"{folder} cannot be run for calibration: {error}") from error
    return model.eval()
