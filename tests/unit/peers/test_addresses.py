"""Which addresses an instance can have."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import HostInfo
from penstock.peers.addresses import advertised, is_loopback, may_be_loopback


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost:8080", HostInfo("localhost", 8080)),
        ("shop-1.eu_west.example:1", HostInfo("shop-1.eu_west.example", 1)),
        ("10.0.0.1:65535", HostInfo("10.0.0.1", 65535)),
        ("[fe80::1]:80", HostInfo("fe80::1", 80)),
    ],
)
def test_should_take_names_and_addresses(text: str, host: HostInfo) -> None:
    assert advertised(text) == host
    assert str(host) == text


NONE = """
:80 host host: host:0 host:65536 host:-1 host:\uff18\uff10 host:1e3 0.0.0.0:80 [::]:80 [::ffff:0.0.0.0]:80 224.0.0.1:80
[ff02::1]:80 255.255.255.255:80 0:80 127.1:80 0x7f000001:80 1.2.3.256:80 ::1:80 [localhost]:80 [10.0.0.1]:80 http://host:80
user@host:80 host/path:80 -a:80 a..b:80 \ud800:80 m\u00fcnchen:80
"""


@pytest.mark.parametrize(
    "text", [*NONE.split(), "", "a b:80", "host\n:80", "host\r\nX: y:80", "h" * 254 + ":80", "x" * 1000 + ":80"], ids=ascii
)
def test_should_refuse_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        advertised(text)


@given(st.text(max_size=60))
def test_should_fail_with_nothing_but_a_reason(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert 0 < advertised(text).port < 65536


def test_should_know_what_stays_on_this_host() -> None:
    assert is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("::ffff:10.0.0.1")
    assert may_be_loopback(HostInfo("some-name", 1))
    assert may_be_loopback(HostInfo("127.0.1.1", 1))
    assert not may_be_loopback(HostInfo("192.0.2.1", 1))
