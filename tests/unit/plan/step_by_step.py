"""The arithmetic of docs/plan-step-by-step.md, written down a second time.

It shares no code with the planner: shapes are given as numbers, and every formula is that of the
page. Dense models with grouped-query attention only.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True)
class Model:
    """Numbers of a config.json."""

    layers: int
    hidden: int
    wide: int
    heads: int
    kv_heads: int
    vocabulary: int
    head: int = 128
    positions: int = 40960
    ties: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    form: str = "bfloat16"
    """Or fp8 (a float32 scale per output), or awq (groups of 128, scales of 2 bytes)."""

    def matrices(self, split: int) -> list[tuple[int, int]]:
        """Inputs and outputs of those of one layer, on each of `split` GPUs."""
        heads, kv, wide = self.heads // split, self.kv_heads // split, self.wide // split
        return [
            (self.hidden, (heads + 2 * kv) * self.head),
            (heads * self.head, self.hidden),
            (self.hidden, 2 * wide),
            (wide, self.hidden),
        ]

    def layer_params(self, split: int) -> int:
        """Multiplied for each token in one layer."""
        return sum(inputs * outputs for inputs, outputs in self.matrices(split))

    def layer_bytes(self, split: int) -> float:
        """Of the matrices of one layer."""
        total = 0.0
        for inputs, outputs in self.matrices(split):
            if self.form == "fp8":
                total += inputs * outputs + 4 * outputs
            elif self.form == "awq":
                groups = inputs / 128
                total += inputs * outputs / 2 + groups * outputs * 2 + groups * outputs / 2
            else:
                total += 2 * inputs * outputs
        if self.qkv_bias:
            total += 2 * (self.heads + 2 * self.kv_heads) // split * self.head
        return total

    def table(self, split: int) -> int:
        """Weights of the embedding table, and of the output head."""
        return self.vocabulary // split * self.hidden

    def read_bytes(self, split: int) -> float:
        """In every pass: all layers and the output head."""
        return self.layers * self.layer_bytes(split) + 2 * self.table(split)

    def weight_bytes(self, split: int) -> float:
        """Everything: the embedding table, norms, the rotary table and the scales, too."""
        norms = self.layers * (2 * self.hidden + 2 * self.head * self.qk_norm) + self.hidden
        tables = 1 if self.ties else 2
        buffers = self.positions * self.head * 2 + 16 * self.layers
        return (
            self.layers * self.layer_bytes(split)
            + tables * 2 * self.table(split)
            + 2 * norms
            + buffers
        )

    def kv_bytes(self, split: int) -> int:
        """Of one token."""
        return self.layers * 2 * self.kv_heads // split * self.head * 2


@dataclass(frozen=True)
class Machine:
    """Figures of the catalogue, seconds and bytes."""

    bandwidth: float
    flops: float
    step_s: float
    layer_s: float
    request_s: float
    verify_s: float
    verify_token_s: float
    draft_pass_s: float
    draft_request_s: float
    memory: float = 0.0
    sums: bool = False
    """A CPU reads and multiplies one after the other."""
    all_reduce_s: float = 0.0
    link: float = 1.0


H100 = Machine(
    0.8 * 3350e9, 0.6 * 989e12, 1.2e-3, 5e-6, 8e-6, 200e-6, 1e-6, 300e-6, 1e-6,
    memory=81090 * 1024**2, all_reduce_s=9e-6, link=450e9,
)  # fmt: skip
TWO_CORES = Machine(27e9, 0.5e12, 1.2e-3, 250e-6, 300e-6, 1.5e-3, 300e-6, 200e-6, 100e-6, sums=True)


@dataclass(frozen=True)
class Cell:
    """A model, a machine and a load."""

    target: Model
    machine: Machine
    requests: int | None
    """None: as many as fit."""
    acceptance: float
    length: int
    draft: Model | None = None
    fraction: float = 1.0
    split: int = 1
    prompt: int = 1024
    answer: int = 256
    flops_factor: float = 1.0
    """Of the target's format over bfloat16."""

    def slots(self, *, drafts: bool) -> int:
        """Requests that the KV cache holds."""
        models = [self.target, *([self.draft] if drafts and self.draft else [])]
        layers = sum(model.layers for model in models)
        logits = int(3.8 * 4 * 1024 * self.target.vocabulary)
        width = 4 * self.target.hidden + 3 * self.target.wide // self.split
        activations = max(logits, 8192 * width * 2)
        graphs = (512 + 12 * layers) * 1024**2
        runtime = (280 if self.split == 1 else 2200) * 1024**2
        free = (
            int(0.9 * self.machine.memory)
            - sum(model.weight_bytes(self.split) for model in models)
            - activations
            - graphs
            - runtime
        )
        block = 16 * sum(model.kv_bytes(self.split) for model in models)
        return int(free // block) // -(-(self.prompt + self.answer) // 16)

    def pass_s(
        self, model: Model, tokens: float, requests: float, context: float, sampled: float
    ) -> float:
        """One pass of a model."""
        machine = self.machine
        factor = self.flops_factor if model is self.target else 1.0
        cached = requests * context * model.kv_bytes(self.split)
        read = (model.read_bytes(self.split) + cached) / machine.bandwidth
        body = model.layers * model.layer_params(self.split) * tokens
        work = 2 * (body + model.table(self.split) * sampled) / (machine.flops * factor)
        both = read + work if machine.sums else max(read, work)
        reduce = 0.0
        if self.split > 1:
            message = tokens * model.hidden * 2
            reduce = machine.all_reduce_s
            reduce += 2 * (self.split - 1) / self.split * message / machine.link
        return both + model.layers * (machine.layer_s + 2 * reduce)

    def prompt_s(self, *, drafts: bool) -> float:
        """Of one prompt."""
        seconds = self.machine.step_s
        for model in [self.target, *([self.draft] if drafts and self.draft else [])]:
            factor = self.flops_factor if model is self.target else 1.0
            pairs = model.layers * self.prompt**2 / 2
            attention = 2 * model.heads * model.head * 2 * pairs / self.split
            seconds += self.pass_s(model, self.prompt, 1, 0, 1)
            seconds += attention / (self.machine.flops * factor)
        return seconds

    def step_s(self, requests: int, length: int) -> float:
        """One decode step."""
        machine, context = self.machine, self.prompt + self.answer / 2
        verified = requests * (1 + length)
        seconds = machine.step_s + machine.request_s * requests
        seconds += self.pass_s(self.target, verified, requests, context, verified)
        if length:
            seconds += machine.verify_s + machine.verify_token_s * requests * length
        if length and self.draft:
            one = self.pass_s(self.draft, requests, requests, context, requests)
            seconds += length * (machine.draft_pass_s + machine.draft_request_s * requests + one)
        return seconds

    def tokens(self) -> float:
        """Of one request in one step with drafts."""
        drafted = sum(self.acceptance**i for i in range(1, self.length + 1))
        return 1 + self.fraction * drafted

    def rate(self, requests: int, *, drafts: bool) -> float:
        """Output tokens per second."""
        step, tokens = self.step_s(requests, 0), 1.0
        if drafts:
            drafted = self.step_s(requests, self.length)
            step = self.fraction * drafted + (1 - self.fraction) * step
            tokens = self.tokens()
        each = self.answer / tokens * step / requests
        return self.answer / (self.prompt_s(drafts=drafts) + each)


QWEN3_8B = Model(36, 4096, 12288, 32, 8, 151936, qk_norm=True)
QWEN3_06B = Model(28, 1024, 3072, 16, 8, 151936, ties=True, qk_norm=True)
LLAMA_70B = Model(80, 8192, 28672, 64, 8, 128256, positions=8192, form="fp8")
LLAMA_70B_AWQ = Model(80, 8192, 28672, 64, 8, 128256, positions=8192, form="awq")
LLAMA_8B = Model(32, 4096, 14336, 32, 8, 128256, positions=8192)
BUNDLED = Model(6, 384, 1024, 6, 2, 4096, head=64, positions=2048, ties=True, qkv_bias=True)
BUNDLED_DRAFT = Model(2, 384, 512, 6, 2, 4096, head=64, positions=2048, ties=True, qkv_bias=True)

CELLS = {
    "A": Cell(QWEN3_8B, H100, None, 0.68, 1, QWEN3_06B),
    "B": Cell(QWEN3_8B, H100, 8, 0.68, 3, QWEN3_06B),
    "C": Cell(LLAMA_70B, H100, None, 0.68, 1, LLAMA_8B, split=2, flops_factor=1979 / 989),
    "D": Cell(LLAMA_70B_AWQ, H100, 16, 0.8, 3, None, fraction=0.35),
    "E": Cell(BUNDLED, TWO_CORES, 1, 0.96, 8, BUNDLED_DRAFT, prompt=70, answer=127),
}
COMMANDS = {
    "A": "Qwen/Qwen3-8B --gpu h100 --acceptance 0.68",
    "B": "Qwen/Qwen3-8B --gpu h100 --acceptance 0.68 --concurrency 8",
    "C": "Llama-3-70B --gpu h100 --num-gpus 2 --quantization fp8 --draft Llama-3-8B "
    "--acceptance 0.68",
    "D": "Llama-3-70B --gpu h100 --quantization awq --draft ngram --acceptance 0.8 "
    "--concurrency 16",
    "E": "bundled --gpu cpu --prompt-tokens 70 --output-tokens 127 --concurrency 1",
}
