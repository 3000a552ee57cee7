"""Joining the ranks of a learner: rendezvous, network interface, and no compiling at start."""

import datetime
import os
import socket

import psutil


def interface_of(address: str) -> str:
    """Return the network interface that owns ``address``.

    gloo and NCCL otherwise bind where the host's name resolves, which is loopback on many hosts,
    and the other nodes' connections time out.

    Raises:
        ValueError: no interface has this address.
    """
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in addresses):
            return name
    raise ValueError(f"no network interface of this host has the address {address}")


def free_port(address: str) -> int:
    """Return a TCP port that is free on ``address`` now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def join(
    *,
    rank: int,
    world_size: int,
    address: str,
    port: int,
    own_address: str,
    backend: str,
    deadline_s: float,
) -> None:
    """Join the process group of the learner's ranks; rank 0 serves at ``address``:``port``.

    Every collective afterwards fails after ``deadline_s`` instead of hanging.
    """
    os.environ.update(
        MASTER_ADDR=address,
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(world_size),
        LOCAL_RANK="0",  # Ray shows each rank its own device only
    )
    interface = interface_of(own_address)
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    os.environ["NCCL_SOCKET_IFNAME"] = interface
    import deepspeed
    import deepspeed.ops

    # On CPU DeepSpeed would compile a shared-memory kernel here: it needs a C++ compiler, takes
    # minutes, and a process killed meanwhile leaves a lock that every later start waits on.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(
        dist_backend=backend,
        timeout=datetime.timedelta(seconds=deadline_s),
        verbose=False,
    )
