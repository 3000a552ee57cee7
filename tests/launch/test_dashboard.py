"""Probing a port: a Ray dashboard with and without token, nothing, or something else."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from launch.dashboard import Dashboard, DashboardError, DashboardGoneError, probe, read_token
from launch.ray_head import free_ports

VERSION = {"version": "4", "ray_version": "2.60.0"}


@pytest.fixture
def serve():
    """Start servers that answer as told; path → (status, body), any other path is 404."""
    servers = []

    def start(answers, token=None):
        class Handler(BaseHTTPRequestHandler):
            def _answer(self):
                given = self.headers.get("Authorization")
                if token and given != f"Bearer {token}":
                    status, body = (401 if given is None else 403), b"no"
                else:
                    status, body = answers.get((self.command, self.path), (404, b""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _answer  # noqa: N815  # names that http.server prescribes

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        poll = {"poll_interval": 0.02}  # else each server takes half a second to stop
        threading.Thread(target=server.serve_forever, kwargs=poll, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def no_token(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    return tmp_path / "token"


def _ray(**more):
    return {("GET", "/api/version"): (200, json.dumps(VERSION).encode()), **more}


def test_nothing_listens():
    assert probe(free_ports(1)[0]) is None


def test_a_head_without_token(serve):
    port = serve(_ray())
    assert probe(port) == Dashboard(port, None, "2.60.0")


def test_a_head_with_our_token(serve, no_token):
    no_token.write_text("secret\n")
    port = serve(_ray(), token="secret")
    assert probe(port) == Dashboard(port, "secret", "2.60.0")


def test_a_head_whose_token_is_missing_or_another(serve, no_token):
    port = serve(_ray(), token="secret")
    with pytest.raises(DashboardError, match=r"wants a token and .*token holds none"):
        probe(port)
    no_token.write_text("another")
    with pytest.raises(DashboardError, match="refuses the token"):
        probe(port)


@pytest.mark.parametrize(
    "answer", [(404, b""), (200, b"<html>"), (200, b"[]"), (200, b"{}"), (500, b"")]
)
def test_another_server_is_a_port_clash_in_one_line(serve, answer):
    port = serve({("GET", "/api/version"): answer})
    with pytest.raises(DashboardError, match=rf"port {port} .* taken") as caught:
        probe(port)
    assert "DASHBOARD_PORT" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_listener_that_never_answers_is_a_clash_too():
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(DashboardError, match="taken by something"):
            probe(silent.getsockname()[1], timeout_s=0.2)


def test_a_proxy_of_the_environment_is_not_asked(serve, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_ports(1)[0]}")
    assert probe(serve(_ray())) is not None


def test_job_states(serve):
    body = {"status": "FAILED", "message": "why", "driver_exit_code": 2}
    port = serve({("GET", "/api/jobs/a"): (200, json.dumps(body).encode())})
    state = Dashboard(port).job("a")
    assert (state.status, state.message, state.exit_code, state.ended) == ("FAILED", "why", 2, True)
    assert Dashboard(port).job("unknown") is None


def test_stop_and_a_head_that_is_gone(serve):
    port = serve({("POST", "/api/jobs/a/stop"): (200, b'{"stopped": true}')})
    assert Dashboard(port).stop_job("a")
    assert not Dashboard(port).stop_job("unknown")
    with pytest.raises(DashboardGoneError, match="does not answer"):
        Dashboard(free_ports(1)[0]).job("a")
    failing = serve({("POST", "/api/jobs/a/stop"): (500, b"")})
    with pytest.raises(DashboardError, match="stop a: HTTP status 500"):
        Dashboard(failing).stop_job("a")


def test_the_tokens_places_are_those_of_ray(tmp_path):
    file = tmp_path / "elsewhere"
    file.write_text(" from file \n")
    assert read_token({"RAY_AUTH_TOKEN": "direct", "RAY_AUTH_TOKEN_PATH": str(file)}) == "direct"
    assert read_token({"RAY_AUTH_TOKEN_PATH": str(file)}) == "from file"
    assert read_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "absent")}) is None
