"""How much time a client gives its request."""

import pytest

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.requests.deadline import deadline_of
from paceline.runtime.gateway.settings import AdmissionSettings

SETTINGS = AdmissionSettings(max_deadline_s=600)


def scope_with(value: bytes) -> dict[str, object]:
    return {"headers": [(b"accept", b"*/*"), (b"x-request-timeout-ms", value)]}


@pytest.mark.parametrize(
    ("value", "time_s"), [(b"1", 0.001), (b"2500", 2.5), (b"600001", 600), (b"3600000", 600)]
)
def test_header_counts_up_to_the_cap(value: bytes, time_s: float) -> None:
    assert deadline_of(scope_with(value), SETTINGS) == time_s


def test_without_the_header_the_cap_counts() -> None:
    assert deadline_of({"headers": []}, SETTINGS) == 600


@pytest.mark.parametrize(
    "value", [b"", b"0", b"-1", b"1.5", b"3600001", b"1e3", b"\xb2", b" 5", b"9" * 5000]
)
def test_a_bad_header_is_a_clear_400(value: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        deadline_of(scope_with(value), SETTINGS)
    problem = refused.value.problem
    assert (problem.status, problem.param) == (400, "x-request-timeout-ms")
    assert "it must be from 1 to 3600000" in problem.message
    assert len(problem.message) < 250
