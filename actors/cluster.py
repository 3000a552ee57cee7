"""Reaching Ray: the job's own cluster, a given address, or a local Ray started here."""

import os
import socket
from pathlib import Path

import ray

import rl
from rl.config.schema import ClusterConfig

# A gRPC server, which a Ray head is, answers the first with a frame of the second's type.
_HTTP2_CLIENT_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HTTP2_SETTINGS = 4

_TOKEN = (
    "a cluster with tokens needs RAY_AUTH_MODE=token and its own token in RAY_AUTH_TOKEN or in the "
    "file that RAY_AUTH_TOKEN_PATH names"
)


class ClusterError(RuntimeError):
    """Ray cannot be reached or cannot give what the run needs; the message is one line."""


def connect(config: ClusterConfig) -> None:
    """Connect to Ray.

    Inside a Ray job this is the job's cluster; with ``cluster.address`` that cluster; otherwise a
    local Ray is started, and ends with this process.

    Raises:
        ClusterError: the address does not answer before the deadline, or wants a token.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = config.address or os.environ.get("RAY_ADDRESS", "")
    if not address:
        _start_local()
        return
    if ":" in address and "://" not in address:
        _check_answers(address, config.connect_deadline_s)
    try:
        ray.init(address=address, log_to_driver=False, runtime_env=_runtime_env())
    except ray.exceptions.AuthenticationError as error:
        raise ClusterError(f"cluster.address={address}: {error.message}; {_TOKEN}") from None
    except ConnectionError as error:  # Ray's driver tells a wrong token from a dead head in no way
        raise ClusterError(f"{_silent(address, error)}; {_TOKEN}") from None
    except (ray.exceptions.RayError, RuntimeError, ValueError) as error:
        raise ClusterError(_silent(address, error)) from None


def _silent(address: str, error: Exception) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"cluster.address={address}: Ray does not answer: {first}"


def _start_local() -> None:
    # Without this Ray replaces the loopback address by the host's outer one.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=_runtime_env(),
        _node_ip_address="127.0.0.1",
    )


def _runtime_env() -> dict[str, object]:
    """Let workers import this checkout; a Ray job's own working directory already does."""
    if os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR"):
        return {}
    root = str(Path(rl.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH", "")
    return {"env_vars": {"PYTHONPATH": os.pathsep.join(p for p in (root, inherited) if p)}}


def _check_answers(address: str, deadline_s: float) -> None:
    """Try the port first: Ray's own client waits for minutes before it gives up."""
    host, _, port = address.rpartition(":")
    encrypted = os.environ.get("RAY_USE_TLS", "0") != "0"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=deadline_s) as link:
            if encrypted:
                return
            link.sendall(_HTTP2_CLIENT_PREFACE)
            header = link.makefile("rb").read(9)
    except (OSError, ValueError, OverflowError) as error:
        raise ClusterError(f"cluster.address={address}: does not answer ({error})") from None
    if len(header) < 9 or header[3] != _HTTP2_SETTINGS:
        raise ClusterError(
            f"cluster.address={address}: something answers that is no Ray head; expected the "
            "address that `ray start --head` prints (not the dashboard's)"
        )
