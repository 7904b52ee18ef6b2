"""Secrets by reference: the configuration says where one lies, never what it is."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from auditor.errors import SettingsError

FORMS = "env:NAME, file:PATH or credential:NAME"
_REFERENCE = re.compile(r"(env|file|credential):(.+)", re.DOTALL)


def check(reference: str) -> str:
    """The reference, unchanged. Raises ValueError for anything else, without repeating it: it may be the secret itself."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"a secret is named, not written down: {FORMS}")
    return reference


def resolve(reference: str, environment: Mapping[str, str] = os.environ) -> str:
    """The secret that a reference names, without the line break at its end.

    `credential:NAME` is a file of the folder that systemd names in CREDENTIALS_DIRECTORY. Raises SettingsError where it
    is missing or empty.
    """
    found = _REFERENCE.fullmatch(reference)
    if not found:
        raise SettingsError(f"a secret is named, not written down: {FORMS}")
    kind, name = found.groups()
    if kind == "env":
        value = environment.get(name)
        if not value:
            raise SettingsError(f"secret {reference}: the environment variable {name} is not set")
        return value
    folder = environment.get("CREDENTIALS_DIRECTORY") if kind == "credential" else None
    if kind == "credential" and not folder:
        raise SettingsError(
            f"secret {reference}: CREDENTIALS_DIRECTORY is not set; give the unit LoadCredential={name}:PATH"
        )
    path = Path(folder or "", name).expanduser()
    try:
        value = path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"secret {reference}: {path} cannot be read: {error}") from error
    if not value:
        raise SettingsError(f"secret {reference}: {path} is empty")
    return value
