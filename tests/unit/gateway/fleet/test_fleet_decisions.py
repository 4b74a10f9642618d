"""Are the fleet's decisions right? Values in, values out; no clock, no network."""

from __future__ import annotations

import re

import pytest

from paceline.gateway.fleet.load import ReplicaLoad
from paceline.gateway.fleet.member import choose_model
from paceline.gateway.fleet.membership import MAX_ADDRESSES, resolve_change
from paceline.gateway.fleet.prober import ListedModel, ReplicaProbeFailed, read_models
from paceline.gateway.fleet.status import LoadReading
from paceline.gateway.fleet.watch import Watch
from paceline.gateway.settings import FleetSettings
from paceline.gateway.settings.replica_entry import ReplicaEntry, member_url


def test_a_replica_is_ready_once_it_has_answered_and_been_warmed_up() -> None:
    answered = Watch().answered()
    assert (answered.state, answered.must_warm_up) == ("starting", True)
    ready = answered.warmed_up()
    assert (ready.state, ready.reason, ready.must_warm_up) == ("ready", "", False)


def test_a_ready_replica_goes_down_after_the_given_number_of_failures_in_a_row() -> None:
    watch = Watch("ready", "")
    states = []
    for _ in range(3):
        watch = watch.failed("no answer", 3)
        states.append(watch.state)
    assert states == ["ready", "ready", "down"]
    assert watch.reason == "no answer"


def test_one_good_answer_forgets_the_failures_of_a_ready_replica() -> None:
    watch = Watch("ready", "").failed("no answer", 3).failed("no answer", 3).answered()
    assert watch == Watch("ready", "")


def test_a_replica_that_is_back_must_warm_up_again() -> None:
    back = Watch("down", "no answer", 3).answered()
    assert (back.state, back.must_warm_up) == ("starting", True)


def test_a_replica_that_answers_but_never_warms_up_ends_up_down() -> None:
    watch = Watch()
    for _ in range(3):
        watch = watch.answered().failed("warm-up failed", 3)
    assert (watch.state, watch.reason) == ("down", "warm-up failed")


def test_new_addresses_join_and_missing_ones_leave_after_two_answers_without_them() -> None:
    first = resolve_change({}, ["a", "b"])
    assert (first.joining, first.leaving) == (("a", "b"), ())
    known = {"a": 0, "b": 0}
    once = resolve_change(known, ["b", "c"])
    assert (once.joining, once.leaving, once.num_absences) == (("c",), (), {"a": 1, "b": 0})
    twice = resolve_change(once.num_absences, ["b"])
    assert (twice.leaving, twice.num_absences) == (("a",), {"b": 0})


def test_an_address_that_is_back_starts_counting_anew() -> None:
    once = resolve_change({"a": 0, "b": 0}, ["b"])
    assert resolve_change(once.num_absences, ["a", "b"]).num_absences == {"a": 0, "b": 0}


def test_a_name_without_any_address_changes_nothing() -> None:
    """A resolver in trouble must not take the fleet out."""
    change = resolve_change({"a": 1}, [])
    assert (change.joining, change.leaving, change.num_absences) == ((), (), {"a": 1})


def test_a_name_with_masses_of_addresses_is_cut() -> None:
    assert len(resolve_change({}, map(str, range(10_000))).joining) == MAX_ADDRESSES


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("http://GPU-1:8000", "http://gpu-1:8000"),
        ("http://gpu-1:80/", "http://gpu-1"),
        ("https://gpu-1:443", "https://gpu-1"),
        ("https://gpu-1:80", "https://gpu-1:80"),
        ("http://[FD00::1]:8000", "http://[fd00::1]:8000"),
    ],
)
def test_one_address_has_one_form(given: str, plain: str) -> None:
    assert ReplicaEntry(url=given).url == plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either url"),
        ({"url": "http://a:1", "dns": "a:1"}, "either url"),
        ({"url": "a:1"}, "http://host:port"),
        ({"url": "ftp://a"}, "http://host:port"),
        ({"url": "http://"}, "http://host:port"),
        ({"url": "http://a:99999"}, "no valid URL"),
        ({"url": "http://a:1/v1"}, "leave out what follows"),
        ({"url": "http://a:1/?x=1"}, "leave out what follows"),
        ({"url": "http://me:secret@a:1"}, "a key is given by key_file"),
        ({"dns": "a"}, "host:port"),
        ({"dns": "a:0"}, "1 to 65535"),
        ({"dns": "http://a:1"}, "host:port"),
        ({"dns": "a:b"}, "host:port"),
        ({"dns": "a:1", "name": "two words"}, "letters, digits"),
        ({"dns": "a:1", "name": ""}, "letters, digits"),
        ({"dns": "a:1", "model": ""}, "model is empty"),
        ({"dns": "a:1", "dialect": "ollama"}, "vllm, sglang, trtllm"),
        ({"dns": "a:1", "key": ""}, "one word"),
        ({"dns": "a:1", "key": "two words"}, "one word"),
        ({"dns": "a:1", "key": "a\r\nx-evil: 1"}, "no HTTP header"),
        ({"dns": "a:1", "max_in_flight": 0}, "at least 1"),
    ],
)  # fmt: skip
def test_wrong_entries_are_refused_with_a_reason(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        ReplicaEntry(**given)
    assert "secret" not in str(caught.value)


def test_a_key_is_not_shown() -> None:
    assert "s3cret" not in repr(ReplicaEntry(url="http://a", key="s3cret"))


def test_an_entry_is_called_by_its_address_unless_it_has_a_name() -> None:
    assert ReplicaEntry(url="http://gpu-1:8000").label == "gpu-1:8000"
    assert ReplicaEntry(dns="LLM.svc:8000").label == "llm.svc:8000"
    assert ReplicaEntry(url="http://gpu-1:8000", name="big").label == "big"
    assert ReplicaEntry(dns="llm.svc:8000").host_and_port == ("llm.svc", 8000)


def test_addresses_of_both_families_become_urls() -> None:
    assert member_url("10.0.0.1", 8000) == "http://10.0.0.1:8000"
    assert member_url("fd00::1", 8000) == "http://[fd00::1]:8000"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"url": "http://a:1"}, {"url": "http://A:1/", "name": "b"}], "url 'http://a:1' twice"),
        ([{"url": "http://a:1", "name": "x"}, {"dns": "b:1", "name": "x"}], "name 'x' twice"),
        ([{"dns": "a:1"}, {"dns": "A:1", "name": "b"}], "dns 'a:1' twice"),
    ],
)
def test_the_same_replica_twice_is_refused(entries: list[dict[str, str]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FleetSettings(entries=tuple(ReplicaEntry(**entry) for entry in entries))


@pytest.mark.parametrize("name", ["poll_period_s", "poll_timeout_s", "load_period_s"])
def test_times_must_be_more_than_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        FleetSettings(**{name: 0})


def test_models_are_read_as_vllm_lists_them() -> None:
    page = b'{"object":"list","data":[{"id":"a","max_model_len":2048},{"id":"b"},{"id":5},7]}'
    assert read_models(page) == [ListedModel("a", 2048), ListedModel("b")]


@pytest.mark.parametrize("page", [b"", b"[]", b'{"data":5}', b"<html>"])
def test_a_page_without_models_is_a_failure(page: bytes) -> None:
    with pytest.raises(ReplicaProbeFailed):
        read_models(page)


def test_the_operators_word_on_the_model_counts() -> None:
    listed = [ListedModel("base", 4096), ListedModel("adapter", 1024)]
    assert choose_model(listed, None) == ListedModel("base", 4096)
    assert choose_model(listed, "adapter") == ListedModel("adapter", 1024)
    assert choose_model(listed, "other") == ListedModel("other")
    with pytest.raises(ReplicaProbeFailed, match="say which with `model`"):
        choose_model([], None)


def test_a_load_that_is_too_old_is_not_shown() -> None:
    reading = LoadReading(ReplicaLoad(1), read_at_s=100.0).failed("no answer")
    assert reading.current(130.0, max_age_s=30.0) == ReplicaLoad(1)
    assert reading.current(130.1, max_age_s=30.0) is None
    assert reading.failure == "no answer"
