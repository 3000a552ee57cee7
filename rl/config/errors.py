"""The one error that a wrong configuration raises."""


class ConfigError(ValueError):
    """A configuration that cannot run; the message is one line: key=value: what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def wrong(key: str, value: object, allowed: str) -> ConfigError:
    """Return the error for one key: ``key=value: allowed``."""
    return ConfigError(f"{key}={display(value)}: {allowed}")


def display(value: object) -> str:
    """Return ``value`` the way it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(display(item) for item in value) + "]"
    return str(value)
