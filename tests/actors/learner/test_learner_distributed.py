"""Addresses, interfaces and ports of the ranks' rendezvous."""

import socket

import psutil
import pytest

from actors.learner.distributed import free_port, interface_of


def test_interface_owns_the_address():
    interfaces = psutil.net_if_addrs()
    owned = [
        (name, entry.address)
        for name, addresses in interfaces.items()
        for entry in addresses
        if entry.family is socket.AF_INET
    ]
    assert "127.0.0.1" in [address for _, address in owned]
    for _, address in owned:
        assert address in [entry.address for entry in interfaces[interface_of(address)]]


def test_foreign_address_has_no_interface():
    with pytest.raises(ValueError, match=r"no network interface .* 192\.0\.2\.1"):
        interface_of("192.0.2.1")  # reserved for documentation


def test_free_port_can_be_bound():
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port("127.0.0.1")))
