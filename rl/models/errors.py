"""The one error of model look-up, so that callers tell it from failures of the libraries below."""


class ModelError(Exception):
    """The configured model cannot be used; the message names the key or folder and the lack."""
