"""A Ray dashboard spoken to over HTTP: is one answering, how does a job stand, stop it.

The standard library is enough for three requests, and importing Ray would cost a second before
anything is started.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")

# A proxy of the environment has no business with a dashboard on this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DashboardError(Exception):
    """The dashboard does not answer as expected; the message is one clear line."""


class DashboardGoneError(DashboardError):
    """Nothing listens at the dashboard's port any more."""


@dataclass(frozen=True)
class JobState:
    """Where a submitted job stands. ``exit_code`` is the driver's, once it has ended."""

    status: str  # PENDING | RUNNING | SUCCEEDED | FAILED | STOPPED
    message: str
    exit_code: int | None

    @property
    def ended(self) -> bool:
        """Tell whether the job is over, however it went."""
        return self.status in TERMINAL


@dataclass(frozen=True)
class Dashboard:
    """One dashboard on this machine; ``token`` is None where it asks for none."""

    port: int
    token: str | None = None
    ray_version: str = ""

    @property
    def address(self) -> str:
        """Return the base address, such as ``http://127.0.0.1:8265``."""
        return f"http://127.0.0.1:{self.port}"

    def job(self, submission_id: str, timeout_s: float = 5.0) -> JobState | None:
        """Return a job's state, or None when the head does not know it."""
        status, body = self._request("GET", f"/api/jobs/{submission_id}", timeout_s)
        if status == 404:
            return None
        if status != 200:
            raise DashboardError(f"{self.address}: job {submission_id}: HTTP status {status}")
        found = _json_object(body)
        return JobState(
            status=str(found.get("status", "")),
            message=str(found.get("message") or ""),
            exit_code=found.get("driver_exit_code"),
        )

    def stop_job(self, submission_id: str, timeout_s: float = 5.0) -> bool:
        """Ask a job to stop, as ``ray job stop`` does; False when the head knows no such job."""
        status, _ = self._request("POST", f"/api/jobs/{submission_id}/stop", timeout_s)
        if status not in (200, 404):
            raise DashboardError(f"{self.address}: stop {submission_id}: HTTP status {status}")
        return status == 200

    def _request(self, method: str, path: str, timeout_s: float) -> tuple[int, bytes]:
        try:
            return _http(method, self.address + path, self.token, timeout_s)
        except OSError as error:
            refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
            kind = DashboardGoneError if refused else DashboardError
            raise kind(f"{self.address} does not answer: {error}") from None


def probe(port: int, timeout_s: float = 1.0) -> Dashboard | None:
    """Return the dashboard that answers at ``port`` of this machine, or None when nothing listens.

    Raises:
        DashboardError: something else listens there, or the head wants a token that is not ours.
    """
    token = None
    try:
        status, body = _http("GET", f"http://127.0.0.1:{port}/api/version", None, timeout_s)
        if status in (401, 403):
            token = read_token()
            if token is None:
                raise DashboardError(
                    f"the Ray head at port {port} wants a token and {token_path()} holds none"
                )
            status, body = _http("GET", f"http://127.0.0.1:{port}/api/version", token, timeout_s)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return None
        raise _not_ray(port) from None
    except OSError:  # it listens, but does not speak HTTP or does not answer in time
        raise _not_ray(port) from None
    if status in (401, 403):
        raise DashboardError(f"the Ray head at port {port} refuses the token of {token_path()}")
    version = _json_object(body).get("ray_version") if status == 200 else None
    if not version:
        raise _not_ray(port)
    return Dashboard(port, token, str(version))


def token_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file that holds the token of this user's Ray clusters, as Ray looks for it."""
    return Path(environment.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()


def read_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token for this user's Ray clusters, from the places where Ray looks for it."""
    if environment.get("RAY_AUTH_TOKEN"):
        return environment["RAY_AUTH_TOKEN"]
    path = token_path(environment)
    return (path.read_text().strip() or None) if path.is_file() else None


def _not_ray(port: int) -> DashboardError:
    return DashboardError(
        f"port {port} of this machine is taken by something that is not a Ray dashboard; "
        "DASHBOARD_PORT=8266 (or another free one) moves ours"
    )


def _http(method: str, url: str, token: str | None, timeout_s: float) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in ``body``, or an empty one when it holds something else."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
