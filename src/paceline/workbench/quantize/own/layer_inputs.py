"""Run a model one decoder layer at a time, and collect what the matrices of a layer read.

The outputs of a layer are computed after its matrices were quantized, so that the next layer is
fitted to what it will really read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from paceline.foundation.quantized.architecture import LINEARS

Collector = Callable[[torch.Tensor], None]
"""Gets the inputs (tokens, inputs of the matrix) of one call."""


class _FirstLayerReached(Exception):
    """The inputs of the first layer are known; the rest of the model need not run."""


@dataclass(slots=True)
class _Call:
    """The arguments of one call of a layer; `hidden` is (1, tokens, hidden size)."""

    hidden: torch.Tensor
    named: dict[str, Any]


class LayerWalk:
    """A model whose decoder layers run one after another over the same samples."""

    def __init__(self, model: Any, samples: Sequence[Sequence[int]]) -> None:
        """Compute the inputs of the first layer. `samples` are token ids."""
        self.layers = model.model.layers
        self._calls = _first_calls(model, samples)

    def collect(self, index: int, collectors: dict[str, Collector]) -> None:
        """Run layer `index`, and give each named matrix's inputs to its collector."""
        layer = self.layers[index]
        handles = [
            layer.get_submodule(name).register_forward_pre_hook(_handing_to(collector))
            for name, collector in collectors.items()
        ]
        try:
            self._run(layer)
        finally:
            for handle in handles:
                handle.remove()

    def advance(self, index: int) -> None:
        """Run layer `index` as it is now; its outputs are the inputs of the next one."""
        for call, output in zip(self._calls, self._run(self.layers[index]), strict=True):
            call.hidden = output

    @torch.no_grad()
    def _run(self, layer: Any) -> list[torch.Tensor]:
        outputs = []
        for call in self._calls:
            output = layer(call.hidden, **call.named)
            outputs.append(output[0] if isinstance(output, tuple) else output)
        return outputs


def matrices_of(layer: Any) -> dict[str, torch.Tensor]:
    """Return the weights of a decoder layer's matrices by name, not copied."""
    return {name: layer.get_submodule(name).weight.data for name in LINEARS}


def _handing_to(collector: Collector) -> Callable[[Any, tuple[Any, ...]], None]:
    def hand_over(module: Any, inputs: tuple[Any, ...]) -> None:
        (given,) = inputs
        collector(given.reshape(-1, given.shape[-1]))

    return hand_over


@torch.no_grad()
def _first_calls(model: Any, samples: Sequence[Sequence[int]]) -> list[_Call]:
    calls: list[_Call] = []

    def stop(module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = dict(named)
        hidden = inputs[0] if inputs else given.pop("hidden_states")
        calls.append(_Call(hidden, given))
        raise _FirstLayerReached

    handle = model.model.layers[0].register_forward_pre_hook(stop, with_kwargs=True)
    try:
        for sample in samples:
            try:
                model(input_ids=torch.tensor([list(sample)]), use_cache=False)
            except _FirstLayerReached:
                continue
    finally:
        handle.remove()
    return calls
