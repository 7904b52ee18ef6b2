"""A small lake that telemetry files are put into, as the program does it."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.landing import LandingFile, Recognised, SourceReport
from auditor.normalise.look import look
from auditor.normalise.telemetry import finish, load, recognise


class Lake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.con = duckdb.connect(config={"autoload_known_extensions": "false", "threads": "2"})
        self.con.execute("set timezone = 'America/New_York'")  # nothing may depend on the session's zone
        self.remarks: list[str] = []

    def put(self, name: str, content: Any) -> Path:
        """Writes text, bytes or (as JSON) anything else; a name that ends in .gz is compressed."""
        data = content if isinstance(content, (bytes, str)) else json.dumps(content)
        data = data.encode() if isinstance(data, str) else data
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    def recognise(self, path: Path) -> Recognised | None:
        file = LandingFile(path, path.relative_to(self.folder).as_posix(), path.stat().st_size)
        return recognise(file, look(file))

    def load(self, *paths: Path, finished: bool = True) -> list[SourceReport]:
        found = [self.recognise(path) for path in paths]
        assert None not in found, "a file was not recognised"
        reports = load(self.con, [file for file in found if file is not None])
        if finished:
            self.remarks = finish(self.con)
        return reports

    def rows(self, columns: str = "resource_id, device, value", where: str = "true") -> list[tuple[Any, ...]]:
        return self.con.execute(f"select {columns} from metrics where {where} order by all").fetchall()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.con.close()
