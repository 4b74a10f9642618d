"""What can be no address of a server is refused; what is stored is what was given."""

from __future__ import annotations

import doctest

import pytest

from paceline.runtime.gateway.settings import replica_address
from paceline.runtime.gateway.settings.replica_address import (
    canonical_dns,
    canonical_url,
    url_of_address,
)

NO_HOSTS = [
    *("", " ", "a b", " a", "a ", "a\0b", "10.0.0\r\n.1", "a\tb", "a\x7fb", "a\u00a0b", "a\u200bb"),
    *("a..b", ".a", ".", "-a", "a-", "a." + "b" * 64, "a" * 5000, ".".join(["a" * 60] * 5)),
    *("bücher.example", "\uff41.example", "a%62c", "%00", "a,b", "a;b", "a|b", "a'b", 'a"b', "<a>"),
    *("1", "127.1", "0x7f.0.0.1", "2130706433", "010.0.0.1", "256.0.0.1", "1.2.3.4.5", "a.0x1"),
]


@pytest.mark.parametrize("host", NO_HOSTS)
def test_a_host_that_can_be_no_server_is_refused(host: str) -> None:
    for port in ("", ":8000"):
        with pytest.raises(ValueError, match="url is") as caught:
            canonical_url(f"http://{host}{port}")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 500
    with pytest.raises(ValueError, match="dns is") as caught:
        canonical_dns(f"{host}:8000")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "url",
    [
        *("http:///x", "http:/a", "http:a", "//a", "http://", "", "a", "ftp://a", "http\n://a"),
        *("http://a\\b", "http://a/..", "http://a//", "http://a?", "http://a#", "http://a:1/\n"),
        *("http://[fe80::1%eth0]:1", "http://[fe80::1%25eth0]:1", "http://[::1", "http://::1"),
        *("http://[]", "http://[1.2.3.4]", "http://[::1]a:1", "http://a:1:2", " http://a", "\nhttp://a"),
    ],
)  # fmt: skip
def test_what_is_no_http_url_of_a_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url is"):
        canonical_url(url)


NO_PORTS = [
    *(
        "",
        "0",
        "00",
        "65536",
        "99999999999",
        "-1",
        "+1",
        " 1",
        "1_0",
        "\u0661",
        "0x1",
        "080",
        "80\n",
    ),
]


@pytest.mark.parametrize("port", NO_PORTS)
def test_a_port_is_1_to_65535_in_decimal_digits(port: str) -> None:
    with pytest.raises(ValueError, match="1 to 65535"):
        canonical_url(f"http://a:{port}")
    with pytest.raises(ValueError, match="dns is"):
        canonical_dns(f"a:{port}")


@pytest.mark.parametrize(
    "url",
    [
        *("http://user:s3cret@a:1", "http://s3cret@a", "s3cret@a", "http://a:1/s3cret"),
        *("http://a/?token=s3cret", "http://a#s3cret", "http://a\\@s3cret", "http://a:1?s3cret"),
        *("http://user:s3cret%40a:1", "http://s3cret%40a:1", "http://user:s3cret%2540a"),
        *("http://user:s3cret\uff20a:1", "http://user:s3cret:1", "http://s3cret:x", "s3cret"),
        *(
            "http://a:s3cret",
            "http://a:1s3cret/v1",
            "ftp://s3cret",
            "http://s3cret:x/v1",
            "//s3cret",
        ),
        *("http://[s3cret]", "https://s3cret-/", "http:s3cret", "postgres://user:s3cret%40a"),
    ],
)
def test_a_refusal_does_not_quote_what_may_be_a_secret(url: str) -> None:
    with pytest.raises(ValueError, match="url ") as caught:
        canonical_url(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "user:s3cret@host:1",
            "user:s3cret%40host:1",
            "http://user:s3cret%40host:1",
            "host:s3cret",
        ),
        *("s3cret", "s3cret:", "[s3cret]:1", "host:1:s3cret", "s3cret host:1", "s3cret%40host:0"),
    ],
)
def test_a_refused_dns_name_does_not_quote_what_may_be_a_secret(text: str) -> None:
    with pytest.raises(ValueError, match="dns ") as caught:
        canonical_dns(text)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("HTTP://A.Example:80", "http://a.example"),
        ("http://a_b-c.svc.cluster.local.:1", "http://a_b-c.svc.cluster.local.:1"),
        ("http://xn--bcher-kva.example", "http://xn--bcher-kva.example"),
        ("http://[0:0::1]:8000/", "http://[::1]:8000"),
        ("https://10.0.0.1:443", "https://10.0.0.1"),
    ],
)
def test_addresses_in_use_have_one_canonical_form(given: str, canonical: str) -> None:
    assert canonical_url(given) == canonical
    assert canonical_url(canonical) == canonical


def test_ipv4_and_ipv6_addresses_become_urls() -> None:
    assert url_of_address("10.0.0.1", 8000) == "http://10.0.0.1:8000"
    assert url_of_address("fd00::1", 8000) == "http://[fd00::1]:8000"


def test_examples_in_docstrings_run() -> None:
    result = doctest.testmod(replica_address)
    assert result.attempted > 0
    assert result.failed == 0
