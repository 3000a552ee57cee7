"""Episodes and metrics as JSON lines: exact round trips, appended whole, cut back on resume."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from rl.episode.records import Candidate, Episode, Group
from rl.files import sync
from rl.judging.interface import Abstention, Judgement

Row = dict[str, Any]


class RowError(ValueError):
    """A line that is not a row, or a row that JSON cannot hold; the message names where."""


@dataclass(frozen=True)
class _VerdictRow:
    """A verdict on disk: one of the two is set, and so its type is not lost."""

    judgement: Judgement | None = None
    abstention: Abstention | None = None


@dataclass(frozen=True)
class _CandidateRow(Candidate):
    verdict: _VerdictRow | None = None  # type: ignore[assignment]


@dataclass(frozen=True)
class _GroupRow(Group):
    candidates: tuple[_CandidateRow, ...]


@dataclass(frozen=True)
class _EpisodeRow(Episode):
    groups: tuple[_GroupRow, ...] = ()


# Sets are written sorted, so that the same episode always gives the same bytes.
_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(_EpisodeRow)


def append_episode(path: Path, episode: Episode) -> None:
    """Append one episode as a line and flush it to disk.

    Raises :class:`RowError` for a number that is not finite (JSON has none) and for a file whose
    last line is torn.
    """
    row = _convert(episode, _EpisodeRow, groups=tuple(_group_to_row(g) for g in episode.groups))
    _require_finite(msgspec.to_builtins(row), f"episode {episode.id}")
    _append(path, _ENCODER.encode(row))


def read_episodes(path: Path) -> Iterator[Episode]:
    """Yield the episodes of a file, first to last; a torn last line is not a row.

    Raises :class:`RowError` with file and line for any other line that is not an episode.
    """
    for number, line in _lines(path):
        try:
            row = _DECODER.decode(line)
            groups = tuple(_group_from_row(g) for g in row.groups)
        except (msgspec.MsgspecError, ValueError) as error:
            raise RowError(f"{path}, line {number}: not an episode: {error}") from error
        yield _convert(row, Episode, groups=groups)


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row of plain values and flush it to disk; missing values are ``None``.

    Keys of nested mappings become strings. Raises :class:`RowError` as :func:`append_episode` does.
    """
    _require_finite(msgspec.to_builtins(row), "row")
    _append(path, msgspec.json.encode(row))


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of JSON objects; a torn last line is not a row.

    Raises :class:`RowError` with file and line for any other line that is not an object.
    """
    for number, line in _lines(path):
        yield _decode_row(path, number, line)


def truncate_rows(path: Path, keep: Callable[[Row], bool]) -> int:
    """Drop rows for which ``keep`` is false, and a torn last line; return how many went.

    ``keep`` sees the row as plain values (an episode's id is ``row["id"]["order"]``). The file is
    replaced by one rename, kept lines unchanged to the byte: a reader, or a crash at any moment,
    finds the old file or the new one. A missing file has no rows.
    """
    if not path.exists():
        return 0
    if not path.is_file():
        raise RowError(f"{path}: is no file")
    dropped = int(_is_torn(path))
    path = path.resolve()  # a link stays one
    kept: list[bytes] = []
    for number, line in _lines(path):
        if _keeps(keep, path, number, line):
            kept.append(line)
        else:
            dropped += 1
    if dropped:
        fresh = path.with_name(path.name + ".new")
        with fresh.open("wb") as out:
            out.writelines(kept)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
        sync(path.parent)
    return dropped


def _keeps(keep: Callable[[Row], bool], path: Path, number: int, line: bytes) -> bool:
    row = _decode_row(path, number, line)
    try:
        return keep(row)
    except (KeyError, TypeError) as error:
        raise RowError(f"{path}, line {number}: not a row of this file: {error!r}") from None


def _append(path: Path, line: bytes) -> None:
    """Write ``line`` with its newline in one call: a crash leaves at most one torn last line."""
    if path.exists() and _is_torn(path):
        raise RowError(
            f"{path}: the last line is torn; drop it with truncate_rows before appending"
        )
    with path.open("ab", buffering=0) as out:
        out.write(line + b"\n")
        os.fsync(out.fileno())


def _is_torn(path: Path) -> bool:
    """Whether the file's last line was never finished: it has no newline."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the finished lines with their numbers, counted from 1."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield number, line


def _decode_row(path: Path, number: int, line: bytes) -> Row:
    try:
        return msgspec.json.decode(line, type=Row)
    except msgspec.MsgspecError as error:
        raise RowError(f"{path}, line {number}: not a JSON object: {error}") from error


def _require_finite(value: Any, where: str) -> None:
    """Raise :class:`RowError` for a NaN or infinity: JSON would turn it into a missing value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise RowError(f"{where} is {value}; allowed: finite numbers, or None where missing")
    if isinstance(value, dict):
        for key, item in value.items():
            _require_finite(item, f"{where}: {key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _require_finite(item, f"{where}[{index}]")


def _convert(value: Any, kind: type, **changes: Any) -> Any:
    """Copy a dataclass's fields into ``kind``, which has the same fields, with some replaced."""
    copied = {field.name: getattr(value, field.name) for field in fields(kind)}
    return kind(**(copied | changes))


def _group_to_row(group: Group) -> _GroupRow:
    candidates = tuple(
        _convert(c, _CandidateRow, verdict=_verdict_to_row(c.verdict)) for c in group.candidates
    )
    return _convert(group, _GroupRow, candidates=candidates)


def _verdict_to_row(verdict: Judgement | Abstention | None) -> _VerdictRow | None:
    if isinstance(verdict, Abstention):
        return _VerdictRow(abstention=verdict)
    return None if verdict is None else _VerdictRow(judgement=verdict)


def _group_from_row(group: _GroupRow) -> Group:
    candidates = tuple(
        _convert(c, Candidate, verdict=_verdict_from_row(c.verdict)) for c in group.candidates
    )
    return _convert(group, Group, candidates=candidates)


def _verdict_from_row(verdict: _VerdictRow | None) -> Judgement | Abstention | None:
    if verdict is None:
        return None
    if (verdict.judgement is None) == (verdict.abstention is None):
        raise ValueError("a verdict is a judgement or an abstention")
    return verdict.judgement or verdict.abstention
