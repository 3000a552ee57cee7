"""Reads artefacts: JSON lines of ``{id?, artifact_type, text, domain?}``."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rl.data.task_format import FieldError, describe_decoding_error, require_text
from rl.data.tasks import TaskFileError, read_lines


@dataclass(frozen=True)
class Artifact:
    """Something finished, which a user could have wanted without knowing it."""

    id: str
    domain: str
    artifact_type: str
    text: str


class _ArtifactRecord(msgspec.Struct, forbid_unknown_fields=True):
    artifact_type: str
    text: str
    id: str = ""
    domain: str = ""


_DECODER = msgspec.json.Decoder(_ArtifactRecord)


def load_artifacts(file: Path, domain: str) -> list[Artifact]:
    """Return the artefacts of ``file``; ``domain`` is that of rows which name none.

    A row without an id gets one from its content, so that a later run knows it again.

    Raises:
        TaskFileError: a row that cannot be used, or an id that stands there twice.
    """
    artifacts: dict[str, Artifact] = {}
    for number, line in read_lines(file):
        try:
            artifact = _read(line, domain)
        except FieldError as error:
            raise TaskFileError(f"{file}:{number}: {error}") from None
        if artifact.id in artifacts:
            raise TaskFileError(f"{file}:{number}: id: {artifact.id!r} stands there already")
        artifacts[artifact.id] = artifact
    return list(artifacts.values())


def _read(line: bytes, domain: str) -> Artifact:
    try:
        record = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise FieldError(*describe_decoding_error(error)) from None
    require_text("artifact_type", record.artifact_type)
    require_text("text", record.text)
    name = record.domain or domain
    require_text("domain", name)
    content = f"{record.artifact_type}\n{record.text}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(record.id or f"{name}-{digest[:12]}", name, record.artifact_type, record.text)
