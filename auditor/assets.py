"""Finds the rooms of files (rules, reports, config, examples) in a wheel and in a checkout."""

from pathlib import Path

ROOMS = ("rules", "reports", "config", "examples")


def room(name: str) -> Path:
    """Folder of one room of files.

    Raises ValueError for a name that is no room, FileNotFoundError where the installation lacks it.
    """
    if name not in ROOMS:
        raise ValueError(f"no room is called {name!r}; rooms are {', '.join(ROOMS)}")
    package = Path(__file__).resolve().parent
    places = (package / "_assets" / name, package.parent / name)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"the folder {name!r} is missing: looked in {places[0]} and {places[1]}; reinstall auditor")
