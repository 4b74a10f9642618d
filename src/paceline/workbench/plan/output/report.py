"""A plan as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.foundation.capacity.cost import Payback
from paceline.foundation.capacity.model.kv_layout import kv_bytes_per_token
from paceline.foundation.capacity.model.weights import num_params
from paceline.foundation.planning.decisions.acceptance_bills import AcceptanceBill
from paceline.foundation.planning.decisions.advice import Advice, break_even_sentence
from paceline.foundation.planning.decisions.candidate import Candidate
from paceline.foundation.planning.decisions.planner import SMALL_LOAD_REQUESTS, Plan
from paceline.foundation.planning.decisions.remedies import missing_sentence
from paceline.foundation.planning.decisions.rental import Rental
from paceline.foundation.planning.launch_files import (
    render_paceline_yaml,
    render_vllm_command,
)
from paceline.workbench.plan.output.document import assumptions, peak_ttft_s

_GIB = 1024**3
_WRAP_COLUMNS = 96


def render_report(plan: Plan, advice: Sequence[Advice], bills: Sequence[AcceptanceBill]) -> str:
    """Return the whole report, without a final line break."""
    sections = [
        _answer(plan),
        _memory(plan),
        _performance(plan),
        _losing_drafts(plan),
        _candidates(plan),
        _machines(plan),
        _fleet(plan),
        _bills(bills),
        _advice(advice),
        ["Assumptions", *_bullets(assumptions(plan))],
        *_launch(plan),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _answer(plan: Plan) -> list[str]:
    model, hardware = plan.demand.model, plan.entry.hardware
    size = plan.placement.tensor_parallel
    lines = [
        f"{model.name}: {num_params(model.shape) / 1e9:.2f}B parameters, "
        f"{model.shape.architecture}, {model.weight_format.name}",
        f"on {plan.placement.num_gpus} x {hardware.name}: tensor parallel {size}, "
        f"{plan.placement.num_replicas} replica(s)",
    ]
    context = plan.demand.load.context_tokens
    if not plan.fits:
        return [*lines, *_wrapped(f"Does not fit: needs {missing_sentence(plan)}.", "")]
    if plan.point is None:
        return [*lines, "Fits, but one request alone misses the SLO."]
    point = plan.point
    lines += _wrapped(
        f"Fits. Holds {plan.max_requests} requests of {context} tokens per replica; at "
        f"{point.num_requests}: {point.output_tokens_per_s:,.0f} tokens/s, time per output token "
        f"{point.tpot_s * 1e3:.1f} ms.",
        "",
    )
    if point.num_requests == 1:
        own = f"The first token of a request alone comes within {point.ttft_s * 1e3:,.0f} ms."
        return [*lines, own]
    return lines + _wrapped(
        f"With all {point.num_requests} slots in use, {plan.demand.slo.percentile} % of the "
        f"requests get the first token within {point.ttft_s * 1e3:,.0f} ms: "
        f"{point.prefill_s * 1e3:,.0f} ms for their own prompt, {point.prompt_wait_s * 1e3:,.0f} "
        "ms for the prompts of others and the decode steps beside them.",
        "",
    )


def _memory(plan: Plan) -> list[str]:
    budget = plan.memory.budget
    rows = [("weights", budget.weights)]
    if budget.draft_weights:
        rows.append(("draft weights", budget.draft_weights))
    if not plan.entry.hardware.is_cpu:
        rows += [
            ("activations", budget.activations),
            ("CUDA graphs", budget.graphs),
            ("runtime", budget.runtime),
        ]
    rows.append(("KV cache", plan.memory.kv_cache_bytes))
    used = f"{budget.total / _GIB:.1f} GiB"
    if not plan.entry.hardware.is_cpu:
        used += f" * {budget.utilization:g}"
    tokens, concurrency = plan.memory.layout.logged_tokens(
        plan.memory.kv_cache_bytes, plan.limits.max_model_len, plan.memory.tokens_in_flight
    )
    per_token = kv_bytes_per_token([*plan.memory.target_layers, *plan.memory.draft_layers])
    return [
        f"Memory of each {'machine' if plan.entry.hardware.is_cpu else 'GPU'} ({used})",
        *(f"  {name:14} {size / _GIB:8.2f} GiB" for name, size in rows),
        f"  {per_token:,} bytes per token; {tokens:,} tokens, {concurrency:.2f} requests of "
        f"{plan.limits.max_model_len:,} tokens",
    ]


def _losing_drafts(plan: Plan) -> list[str]:
    """The speed with drafts that do not win at the operating point; at another load they may."""
    drafting = plan.choice.with_drafts
    return [] if drafting is None or plan.choice.speculates else _performance(drafting)


def _performance(plan: Candidate) -> list[str]:
    if not plan.table:
        return []
    drafter = plan.drafter
    what = "" if drafter.kind == "none" else f" with {drafter.label}"
    lines = [
        f"Speed of a replica{what} ({plan.demand.load.prompt_tokens} prompt and "
        f"{plan.demand.load.output_tokens} output tokens)",
        "  requests  draft length  gain    TTFT ms   TPOT ms   tokens/s  requests/s",
    ]
    for row in plan.table:
        mark = " <" if plan.point is not None and row == plan.point else ""
        lines.append(
            f"  {row.num_requests:8}  {row.draft_length:12}  {row.speculation_gain:+5.0%}  "
            f"{row.ttft_s * 1e3:8,.0f}  {row.tpot_s * 1e3:8.1f}  {row.output_tokens_per_s:9,.0f}  "
            f"{row.requests_per_s:10.2f}{mark}"
        )
    return lines


def _launch(plan: Plan) -> list[list[str]]:
    """The files to start from; none where no engine would start."""
    if plan.point is None:
        return []
    sections = [
        ["paceline.yaml", *("  " + line for line in render_paceline_yaml(plan).splitlines())],
        ["vLLM", f"  {render_vllm_command(plan)}"],
    ]
    trial = plan.choice.trial
    if trial is not None:
        sections.append(["vLLM, to measure the acceptance", f"  {render_vllm_command(trial)}"])
    return sections


def _candidates(plan: Plan) -> list[str]:
    """Both sides of the choice of a drafter."""
    choice = plan.choice
    if choice.proposed.kind == "none" or plan.point is None:
        return []
    head = "  candidate         requests  draft length   TPOT ms   tokens/s  USD/month"
    sides = [("without drafts", choice.without)]
    if choice.with_drafts is not None:
        sides.append(("with drafts", choice.with_drafts))
    lines = [f"Drafts or none ({choice.proposed.label})", head]
    for name, side in sides:
        if side.point is None or side.fleet is None:
            lines.append(f"  {name:16}  does not fit or misses the SLO")
            continue
        bill = side.fleet.usd_per_month
        mark = " <" if side is choice.winner else ""
        lines.append(
            f"  {name:16}  {side.point.num_requests:8}  {side.point.draft_length:12}  "
            f"{side.point.tpot_s * 1e3:8.1f}  {side.total_tokens_per_s:9,.0f}  "
            f"{'unknown' if bill is None else f'{bill:,.0f}':>9}{mark}"
        )
    if choice.obstacle:
        lines += _wrapped(f"with drafts: cannot be used: {choice.obstacle}", "  ")
    elif choice.proposed.acceptance is None:
        lines.append(f"  {'with drafts':16}  acceptance unknown: no gain is counted")
    return [*lines, *_wrapped(break_even_sentence(plan), "  ")]


def _machines(plan: Plan) -> list[str]:
    """The machines that were compared where no hardware was given."""
    if not plan.machines:
        return []
    load = plan.demand.load
    if load.requests_per_day is not None:
        what = "the stated load"
    else:
        what = f"{load.concurrency or SMALL_LOAD_REQUESTS} requests at once"
    lines = [
        f"Cheapest machines for {what}",
        "  machine                   USD/hour  USD/month  at once   tokens/s  USD/1M tokens",
    ]
    for one in plan.machines:
        offer, fleet, point = one.offer, one.fleet, one.point
        if offer is None or fleet is None or point is None:
            continue
        count = 1 if fleet.rental is None else fleet.rental.num_machines
        name = f"{offer.num_gpus} x {one.entry.hardware.name}"
        if count > 1:
            name += f", {count} times"
        lines.append(
            f"  {name:24}  {fleet.usd_per_hour:8,.2f}  {fleet.usd_per_month:9,.0f}  "
            f"{point.num_requests * fleet.replicas:7,}  "
            f"{point.output_tokens_per_s * fleet.replicas:9,.0f}  "
            f"{fleet.usd_per_million_output_tokens:13,.3f}"
        )
    sources = dict.fromkeys(one.price_source for one in plan.machines)
    return [*lines, *(line for source in sources for line in _wrapped(source, "  "))]


def _fleet(plan: Plan) -> list[str]:
    fleet, load = plan.fleet, plan.demand.load
    if fleet is None:
        return []
    lines = ["Fleet and cost"]
    if load.requests_per_day is not None:
        lost = " with a region lost" if fleet.regions > 1 else ""
        lines += _wrapped(
            f"{load.requests_per_day:,.0f} requests/day, {load.peak_requests_per_s:,.1f}/s at "
            f"the peak: {fleet.replicas} replicas ({fleet.regions} region(s) of "
            f"{fleet.replicas_per_region}), {fleet.gpus} GPUs; {fleet.load_fraction:.0%} of the "
            f"rate of full slots is used{lost}",
            "  ",
        )
        lines += _wrapped(_peak_waits(plan), "  ")
    if fleet.usd_per_hour is None:
        return [*lines, *_wrapped(f"price: {plan.price_source}", "  ")]
    if fleet.rental is not None:
        lines += _wrapped(_rental(fleet.rental, fleet.gpus), "  ")
    lines += _wrapped(
        f"{fleet.usd_per_hour:,.2f} USD/hour, {fleet.usd_per_month:,.0f} USD/month, "
        f"{fleet.usd_per_million_output_tokens:,.3f} USD per million output tokens "
        f"({fleet.usd_per_million_output_tokens_at_full_load:,.3f} with every slot in use)",
        "  ",
    )
    if fleet.payback is not None:
        lines.append("  " + _payback(fleet.payback))
    return lines


def _peak_waits(plan: Plan) -> str:
    fleet, point = plan.fleet, plan.point
    assert fleet is not None
    assert point is not None
    return (
        f"there, {plan.demand.slo.percentile} % of the requests wait at most "
        f"{fleet.slot_wait_s:.2f} s for a slot and {fleet.prompt_wait_s:.2f} s for other prompts; "
        f"with {point.prefill_s:.2f} s for their own, the first token comes within "
        f"{peak_ttft_s(plan):.2f} s"
    )


def _bills(bills: Sequence[AcceptanceBill]) -> list[str]:
    if len(bills) < 2:
        return []
    lines = [
        "Bill by acceptance",
        "  case                 tokens/s  replicas  USD/month  USD/1M tokens",
    ]
    for bill in bills:
        case = bill.case if bill.acceptance is None else f"{bill.case} {bill.acceptance:g}"
        if bill.output_tokens_per_s is None:
            lines.append(f"  {case:19}  does not fit or misses the SLO")
            continue
        text = f"  {case:19}  {bill.output_tokens_per_s:8,.0f}  {bill.replicas:8,}"
        if bill.usd_per_month is not None:
            text += f"  {bill.usd_per_month:9,.0f}  {bill.usd_per_million_output_tokens:13,.3f}"
        lines.append(text)
    return lines


def _rental(rental: Rental, used_gpus: int) -> str:
    text = (
        f"{rental.num_machines} machine(s) with {rental.offer.num_gpus} GPU(s) each at "
        f"{rental.offer.usd_per_hour:,.2f} USD/hour"
    )
    idle = rental.num_gpus - used_gpus
    return f"{text}; {idle} of {rental.num_gpus} GPUs idle" if idle else text


def _payback(payback: Payback) -> str:
    saved = payback.saved_usd_per_month
    text = f"against {payback.present_usd_per_month:,.0f} USD/month: "
    if payback.months is None:
        return text + f"costs {-saved:,.0f} USD/month more"
    text += f"saves {saved:,.0f} USD/month"
    if payback.one_time_usd:
        text += f", pays back {payback.one_time_usd:,.0f} USD in {payback.months:.1f} months"
    return text


def _advice(advice: Sequence[Advice]) -> list[str]:
    lines = ["Advice"]
    for item in advice:
        lines += _wrapped(f"{item.topic}: {item.choice}. {item.reason}.", "  ")
    return lines


def _bullets(items: Sequence[str]) -> list[str]:
    return [line for item in items for line in _wrapped(item, "  ")]


def _wrapped(text: str, indent: str) -> list[str]:
    lines, line = [], indent
    for word in text.split():
        if len(line) + len(word) >= _WRAP_COLUMNS:
            lines.append(line.rstrip())
            line = indent + "    "
        line += word + " "
    return [*lines, line.rstrip()]
