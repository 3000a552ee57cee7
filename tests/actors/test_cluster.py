"""Reaching Ray: an address that is none is refused in one line, and soon."""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from actors import cluster
from actors.cluster import ClusterError
from rl.config.schema import ClusterConfig


def refused(address, deadline_s=5.0):
    start = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        cluster.connect(ClusterConfig(address=address, connect_deadline_s=deadline_s))
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"cluster.address={address}: ")
    return text, time.monotonic() - start


@contextmanager
def server(answer):
    """A port of this machine where every caller gets ``answer``, and silence after it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        callers = []

        def serve():
            while True:
                try:
                    caller, _ = listening.accept()
                except OSError:
                    return
                callers.append(caller)
                caller.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for caller in callers:
            caller.close()


def test_a_closed_port_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    text, seconds = refused(f"127.0.0.1:{port}")
    assert "does not answer" in text
    assert seconds < 3


def test_a_silent_port_is_given_up_at_the_deadline():
    with server(b"") as address:
        text, seconds = refused(address, deadline_s=0.5)
    assert "does not answer (timed out)" in text
    assert 0.4 < seconds < 5


def test_another_server_is_no_head():
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        text, seconds = refused(address)
    assert "something answers that is no Ray head" in text
    assert seconds < 3


@pytest.mark.parametrize("address", ["127.0.0.1:port", "127.0.0.1:99999999", ":"])
def test_an_address_without_a_port_number(address):
    assert "does not answer" in refused(address)[0]


def test_what_ray_says_is_cut_to_one_line(monkeypatch):
    def fail(**arguments):
        raise ConnectionError("first line\nsecond line")

    monkeypatch.setattr(cluster.ray, "init", fail)
    text = refused("auto")[0]
    assert text.startswith("cluster.address=auto: Ray does not answer: first line; ")
    assert "RAY_AUTH_TOKEN" in text


@pytest.mark.parametrize("kind", ["AuthenticationError", "RaySystemError"])
def test_what_ray_itself_raises_is_refused(monkeypatch, kind):
    def fail(**arguments):
        raise getattr(cluster.ray.exceptions, kind)("no authentication token was found")

    monkeypatch.setattr(cluster.ray, "init", fail)
    text = refused("auto")[0]
    assert "no authentication token was found" in text
    assert ("RAY_AUTH_TOKEN_PATH" in text) == (kind == "AuthenticationError")
    assert len(text) < 300


def test_ray_s_own_check_for_a_token(monkeypatch, tmp_path):
    """The real Ray, in a process of its own: it settles its mode when it is first imported."""
    script = (
        "import sys\n"
        "from actors.cluster import ClusterError, connect\n"
        "from rl.config.schema import ClusterConfig\n"
        "try:\n"
        "    connect(ClusterConfig(address=sys.argv[1]))\n"
        "except ClusterError as error:\n"
        "    print(error)\n"
    )
    unset = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    preface = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # an empty settings frame, as gRPC answers
    with server(preface) as address:
        result = subprocess.run(
            [sys.executable, "-c", script, address],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"cluster.address={address}: ")
    assert "no authentication token was found" in line


def test_a_real_head_answers(local_ray):
    import ray

    cluster._check_answers(ray.get_runtime_context().gcs_address, 10.0)


def test_the_environment_names_the_cluster_when_the_configuration_does_not(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    seen = []
    monkeypatch.setattr(cluster.ray, "init", lambda **arguments: seen.append(arguments))
    cluster.connect(ClusterConfig())
    cluster.connect(ClusterConfig(address="ray://host:10001"))
    assert [arguments["address"] for arguments in seen] == ["auto", "ray://host:10001"]


def test_workers_import_this_checkout_unless_a_job_brings_its_own(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    root = str(cluster.Path(cluster.__file__).resolve().parents[1])
    assert cluster._runtime_env() == {"env_vars": {"PYTHONPATH": f"{root}:elsewhere"}}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert cluster._runtime_env() == {}
