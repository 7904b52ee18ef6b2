"""Where a command finds the state: the configuration and the data directory that it names."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.errors import SettingsError

if TYPE_CHECKING:
    from auditor.settings import Settings
    from auditor.state import State


@dataclass(frozen=True)
class Place:
    """The settings and the data directory of a command."""

    settings: "Settings"
    data_dir: Path


def find_place(config: Path | None, data_dir: Path | None) -> Place:
    """Raises SettingsError where no data directory is named: without one nothing is remembered."""
    from auditor import settings

    loaded = settings.load(config)
    chosen = data_dir or loaded.lake.data_dir
    if chosen is None:
        looked = str(config) if config else ", ".join(settings.PLACES)
        raise SettingsError(
            f"no data directory: give --data-dir, or data_dir under [lake] in the configuration (looked in {looked})"
        )
    return Place(loaded, chosen.expanduser())


@contextmanager
def open_state(config: Path | None, data_dir: Path | None) -> Iterator["State"]:
    """The state of earlier runs. Raises SettingsError where there is none, so that a typing error makes no empty one."""
    from auditor.state import State

    place = find_place(config, data_dir)
    if place.settings.state.url is None and not (place.data_dir / "state.db").is_file():
        raise SettingsError(f"{place.data_dir} holds no state: no audit was run with this data directory yet")
    with State.open(place.settings.state.address(place.data_dir)) as state:
        yield state


def author_or_user(author: str | None) -> str:
    """The author given, else the name of the user."""
    if author:
        return author
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        raise SettingsError("nobody knows who you are here: give --author") from None
