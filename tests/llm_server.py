"""A server of recorded answers: real HTTP on loopback, in the shape of an OpenAI endpoint."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "recorded"


def answer(content: str) -> bytes:
    """Return the body of a chat completion that says ``content``."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": content},
    }
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}
    ).encode()


class Recorded:
    """What the server answers and what it was asked.

    ``script`` is one entry a request, the last for all further ones: a status and a body; or a
    function of the request that gives both. Status 0 never answers (until ``close``).
    """

    def __init__(self, script: Sequence[Any]) -> None:
        self.script = list(script)
        self.asked: list[dict[str, Any]] = []
        self.at_once = self.most_at_once = 0
        self.url = ""
        self.lock = threading.Lock()
        self.closing = threading.Event()

    def take(self, body: dict[str, Any]) -> tuple[int, bytes]:
        with self.lock:
            entry = self.script[min(len(self.asked), len(self.script) - 1)]
            self.asked.append(body)
        made: tuple[int, bytes] = entry(body) if isinstance(entry, Callable) else entry
        return made


def _handler(recorded: Recorded) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0}]}
            self._send(200, json.dumps(models).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with recorded.lock:
                recorded.at_once += 1
                recorded.most_at_once = max(recorded.most_at_once, recorded.at_once)
            status, content = recorded.take(body)
            time.sleep(0.02)
            with recorded.lock:
                recorded.at_once -= 1
            if status == 0:
                recorded.closing.wait(30)
                return
            self._send(status, content)

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def serve(*script: Any) -> Iterator[Recorded]:
    """Serve ``script`` on a free port of the loopback address."""
    recorded = Recorded(script)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(recorded))
    server.daemon_threads = True
    recorded.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield recorded
    finally:
        recorded.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
