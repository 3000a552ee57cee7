"""Composes a run's configuration: schema, default, recipe, model, hardware, then ``key=value``."""

import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import rl
from rl.config.errors import ConfigError
from rl.config.keys import schema_keys, value_at
from rl.config.overrides import set_key, split_arguments
from rl.config.resume import RESUME_KEYS, may_change_on_resume
from rl.config.schema import Config

__all__ = [
    "RESOLVED_CONFIG",
    "ConfigError",
    "config_to_yaml",
    "describe_keys",
    "load_config",
    "load_resolved",
]

# PyYAML writes these as they are and reads them back as a space, unless they are in double quotes.
_RARE_LINE_BREAKS = frozenset("\x85\u2028\u2029")

RESOLVED_CONFIG = "config.yaml"  # the resolved configuration in a run's folder

# Choice → the file of configs/CHOICE/ that is read when the command line names none.
DEFAULT_CHOICES = {"recipe": "discover", "model": "smollm2", "hardware": "cpu"}


class _QuotingDumper(yaml.SafeDumper):
    """Puts every text in double quotes, where each character can be escaped."""


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def load_config(argv: Sequence[str], config_dir: Path | None = None) -> Config:
    """Return the configuration that ``argv`` (``recipe=…``, ``model=…``, ``key=value``) asks for.

    Later layers win: schema, ``default.yaml``, recipe, model, hardware, ``key=value``. With
    ``run.resume=DIR`` the layers are not read: the result is DIR's own resolved configuration
    with ``run.resume=DIR`` and no ``run.dir``; only :data:`rl.config.resume.RESUME_KEYS` may be
    given beside it.

    Raises:
        ConfigError: an argument, a file or a value is wrong; see :mod:`rl.config.validate`.
    """
    given = split_arguments(argv)
    if given.get("run.resume"):
        return _continued(given)
    root: Traversable = config_dir or _find_configs()
    config = OmegaConf.structured(Config)
    _apply_file(config, root / "default.yaml")
    for choice, default in DEFAULT_CHOICES.items():
        name = given.pop(choice, default)
        _apply_file(config, _chosen_file(root, choice, name))
        if choice in schema_keys():  # the recipe and the hardware are recorded by name
            set_key(config, choice, name)
    for name, text in given.items():
        set_key(config, name, text)
    return _to_object(config)


def config_to_yaml(config: Config) -> str:
    """Return ``config`` as YAML text that :func:`load_resolved` reads back unchanged."""
    text = OmegaConf.to_yaml(structured := OmegaConf.structured(config))
    if not _RARE_LINE_BREAKS & set(text):
        return text
    return yaml.dump(OmegaConf.to_container(structured), Dumper=_QuotingDumper, sort_keys=False)


def load_resolved(path: Path) -> Config:
    """Return the configuration that :func:`config_to_yaml` wrote to ``path``, a file or run folder.

    A file with keys missing is rejected: a run continues with exactly what it ran with.
    """
    file = path / RESOLVED_CONFIG if path.is_dir() else path
    config = OmegaConf.structured(Config)
    found = set(_apply_file(config, file))
    missing = [name for name in schema_keys() if name not in found]
    if missing:
        raise ConfigError(f"{file}: the key {missing[0]} is missing")
    return _to_object(config)


def describe_keys(config_dir: Path | None = None) -> list[tuple[str, str, object, str]]:
    """Return (key, type, default, comment) of every key; defaults are those of a bare start."""
    config = load_config([], config_dir)
    return [
        (key.name, key.type_name, value_at(config, key.name), key.comment)
        for key in schema_keys().values()
    ]


def _find_configs() -> Traversable:
    """Return ``configs/`` beside the ``rl`` package, or else the installed package data."""
    beside = Path(rl.__file__).resolve().parent.parent / "configs"
    if beside.is_dir():
        return beside
    try:
        return importlib.resources.files("configs")
    except ModuleNotFoundError:
        raise ConfigError(f"{beside}: no such folder, and no installed configs package") from None


def _chosen_file(root: Traversable, choice: str, name: str) -> Traversable:
    """Return ``configs/CHOICE/NAME.yaml``; an unknown name is an error that lists the rest."""
    known = {file.name.removesuffix(".yaml"): file for file in _yaml_files(root / choice)}
    if name not in known:
        raise ConfigError(f"{choice}={name}: expected one of {', '.join(sorted(known))}")
    return known[name]


def _yaml_files(folder: Traversable) -> list[Traversable]:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")
    return [file for file in folder.iterdir() if file.name.endswith(".yaml")]


def _apply_file(config: DictConfig, file: Traversable) -> list[str]:
    """Set the keys of one YAML file and return their names."""
    try:
        content = OmegaConf.create(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: not valid YAML: nested too deeply") from None
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{file}: not valid YAML: {error}") from None
    plain = OmegaConf.to_container(content)
    if not isinstance(plain, Mapping):
        raise ConfigError(f"{file}: expected keys with values")
    names = []
    for name, value in _leaves(plain):
        try:
            set_key(config, name, value)
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        names.append(name)
    return names


def _leaves(node: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for part, value in node.items():
        name = f"{prefix}{part}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _continued(given: dict[str, str]) -> Config:
    """Return the configuration of the run that ``run.resume`` names, to be continued."""
    folder = Path(given.pop("run.resume"))
    for name in given:
        if not may_change_on_resume(name):
            raise ConfigError(
                f"{name}={given[name]}: cannot be given with run.resume={folder}, which continues "
                f"with the run's own configuration; allowed are {', '.join(RESUME_KEYS)}"
            )
    try:
        found = (folder / RESOLVED_CONFIG).is_file()
    except OSError as error:  # a name that is too long
        raise ConfigError(f"run.resume={folder}: {error.strerror}") from None
    if not found:
        raise ConfigError(f"run.resume={folder}: expected a run folder with {RESOLVED_CONFIG}")
    config = OmegaConf.structured(load_resolved(folder))
    for name, text in {"run.resume": str(folder), "run.dir": "", **given}.items():
        set_key(config, name, text)
    return _to_object(config)


def _to_object(config: DictConfig) -> Config:
    return cast(Config, OmegaConf.to_object(config))
