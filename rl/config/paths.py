"""Rejects configurations that name files or folders that cannot be used; nothing is written."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from rl.config.errors import ConfigError, wrong
from rl.config.keys import value_at
from rl.config.load import RESOLVED_CONFIG
from rl.config.schema import Config
from rl.data.tasks import TaskFileError, bundled_task_files
from rl.judging.encoder_package import EncoderMissingError, default_encoder_path
from rl.models.errors import ModelError
from rl.models.resolve import resolve_model

CHECKPOINTS = "checkpoints"  # the folder of a run's folder that holds one folder a checkpoint


def validate_paths(config: Config) -> None:
    """Check that every file and folder that ``config`` names can be used. Nothing is written.

    Raises:
        ConfigError: the first that cannot, in one line: key, path, what is wrong.
    """
    for check in _CHECKS:
        try:
            for error in check(config):
                raise error
        except OSError as error:  # a name that is too long, a folder that may not be read
            named = str(error.filename)
            raise wrong(_key_of(config, named), named, str(error.strerror)) from None


def _key_of(config: Config, path: str) -> str:
    """Return the key whose value ``path`` is, or lies in."""
    for key in ("run.dir", "run.resume", "model.path", "discovery.user_adapter"):
        value = str(value_at(config, key))
        if value and path.startswith(str(Path(value))):
            return key
    return "tasks.files"


def _outputs_last(config: Config) -> Iterator[ConfigError]:
    """A Ray job runs in a copy of the submitted folder, which is deleted with the job."""
    if not os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR"):
        return
    key, given = ("run.resume" if config.run.resume else "run.dir"), config.run
    folder = given.resume or given.dir
    if not Path(folder).is_absolute():
        yield wrong(
            key,
            folder,
            "expected an absolute folder in a Ray job, whose working directory is a temporary copy",
        )


def _run_folder(config: Config) -> Iterator[ConfigError]:
    """A folder with something in it is emptied only when told, and only if it holds a run."""
    folder = Path(config.run.dir)
    if not config.run.dir:
        return
    if folder.is_symlink() and not folder.exists():
        yield wrong("run.dir", folder, "is a link to nothing; expected a new or empty folder")
    elif not folder.exists():
        yield from _can_be_made(folder)
    elif not folder.is_dir():
        yield wrong("run.dir", folder, "is a file; expected a new or empty folder")
    elif not os.access(folder, os.W_OK):
        yield wrong("run.dir", folder, "may not be written to")
    elif any(folder.iterdir()):
        if not config.run.overwrite:
            yield wrong("run.dir", folder, "is not empty; run.overwrite=true empties it first")
        elif not (folder / RESOLVED_CONFIG).is_file():
            yield wrong(
                "run.dir", folder, f"holds no run (no {RESOLVED_CONFIG}), so it is not overwritten"
            )


def _can_be_made(folder: Path) -> Iterator[ConfigError]:
    """A new folder needs a folder above it that may be written to."""
    above = next(parent for parent in folder.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        yield wrong("run.dir", folder, f"{above} is no folder")
    elif not os.access(above, os.W_OK):
        yield wrong("run.dir", folder, f"{above} may not be written to")


def _resumed_folder(config: Config) -> Iterator[ConfigError]:
    folder = Path(config.run.resume)
    if not config.run.resume:
        return
    if not (folder / RESOLVED_CONFIG).is_file():
        yield wrong("run.resume", folder, f"expected a run folder with {RESOLVED_CONFIG}")
    elif not _has_checkpoint(folder / CHECKPOINTS):
        yield wrong("run.resume", folder, f"has no checkpoint in {CHECKPOINTS}/ to continue from")


def _has_checkpoint(folder: Path) -> bool:
    """A checkpoint becomes visible by one rename; until then its name starts with a dot."""
    return folder.is_dir() and any(
        entry.is_dir() and not entry.name.startswith(".") for entry in folder.iterdir()
    )


def _task_files(config: Config) -> Iterator[ConfigError]:
    for file in config.tasks.files:
        if not Path(file).is_file():
            yield wrong("tasks.files", config.tasks.files, f"{file} is no file")
    if not config.tasks.files:
        try:
            bundled_task_files(config.tasks.domains)
        except TaskFileError as error:
            yield wrong("tasks.domains", config.tasks.domains, str(error))


def _model_folder(config: Config) -> Iterator[ConfigError]:
    """A local folder must hold a whole model with a chat template; a hub id is read later."""
    if config.model.source != "path":
        return
    try:
        found = resolve_model(config.model)
    except ModelError as error:
        yield ConfigError(str(error))
        return
    if isinstance(found, Path) and not _has_chat_template(found):
        yield wrong(
            "model.path",
            config.model.path,
            "the tokenizer has no chat template (tokenizer_config.json or chat_template.jinja)",
        )


def _has_chat_template(folder: Path) -> bool:
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    file = folder / "tokenizer_config.json"
    if not file.is_file():
        return False
    try:
        return bool(json.loads(file.read_text(encoding="utf-8")).get("chat_template"))
    except (ValueError, AttributeError):
        return False


def _user_adapter(config: Config) -> Iterator[ConfigError]:
    adapter = config.discovery.user_adapter
    if adapter and not (Path(adapter) / "adapter_config.json").is_file():
        yield wrong(
            "discovery.user_adapter",
            adapter,
            "expected a peft adapter's folder with adapter_config.json",
        )
    elif adapter and not (Path(adapter) / "adapter_model.safetensors").is_file():
        yield wrong("discovery.user_adapter", adapter, "the folder lacks adapter_model.safetensors")


def _encoder(config: Config) -> Iterator[ConfigError]:
    """The embedded judge's own model is a package of its own."""
    if config.judge.backend != "embedded":
        return
    try:
        default_encoder_path()
    except EncoderMissingError as error:
        yield wrong("judge.backend", "embedded", f"{error}; judge.backend=cues needs none")


_CHECKS = (
    _outputs_last,
    _run_folder,
    _resumed_folder,
    _task_files,
    _model_folder,
    _user_adapter,
    _encoder,
)
