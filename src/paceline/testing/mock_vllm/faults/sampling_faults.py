"""Inject the faults of the sampler: they become a defect of the request's sampling parameters."""

from __future__ import annotations

from dataclasses import replace

from paceline.testing.mock_vllm.faults.fault import SAMPLING_KINDS
from paceline.testing.mock_vllm.faults.fault_book import ActiveFault, FaultBook
from paceline.testing.mock_vllm.http.request_parser import ParsedRequest
from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect


def with_sampling_faults(
    request: ParsedRequest, book: FaultBook
) -> tuple[ParsedRequest, list[ActiveFault]]:
    """The request with the first sampling fault that it triggers, and its faults of other kinds."""
    others = []
    for entry in book.matching("generate", request.prompts):
        if entry.fault.kind not in SAMPLING_KINDS:
            others.append(entry)
        elif request.sampling.defect is None and book.trigger(entry):
            defect = SamplingDefect(DefectKind(entry.fault.kind.value), entry.fault.share)
            request = replace(request, sampling=replace(request.sampling, defect=defect))
    return request, others
