"""Compressed text goes through pipes: all of it, once, and damage shows."""

import gzip
from decimal import Decimal
from pathlib import Path

import pytest
import zstandard

from auditor.lake import store
from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.billing import salvage, source
from auditor.normalise.billing.feed import feeding, is_fed

TEXT = b"".join(b"%d,%d\n" % (number, number % 7) for number in range(300_000))  # more than a pipe holds


def recognised(path: Path, compression: str) -> Recognised:
    shape = Shape("csv", compression, columns=("a", "b"))
    return Recognised(LandingFile(path, path.name, path.stat().st_size), shape, "billing", "cur2-csv", "aws", {})


def read(paths: list[Path], compression: str, spool: Path) -> tuple[int, bool]:
    """How many lines DuckDB sees of the files, and whether they were found sound."""
    con = store.connect("256MiB", 2, spool)
    with feeding([recognised(path, compression) for path in paths], spool) as fed:
        listed = [str(file.file.path) for file in fed.files]
        query = "select count(*) from read_csv(?, columns={'a': 'VARCHAR', 'b': 'VARCHAR'}, auto_detect=false, header=false, null_padding=true)"
        found = con.execute(query, [listed]).fetchone()
    con.close()
    assert not list(spool.glob("feed-*"))
    return (found or (0,))[0], fed.is_sound


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_every_line_of_every_file_arrives(compression: str, tmp_path: Path) -> None:
    pack = gzip.compress if compression == "gzip" else zstandard.compress
    paths = [tmp_path / f"{number}.csv" for number in range(5)]
    for path in paths:
        path.write_bytes(pack(TEXT))
    assert read(paths, compression, tmp_path) == (1_500_000, True)


def test_a_flipped_bit_and_a_lost_end_are_no_sound_files(tmp_path: Path) -> None:
    whole = gzip.compress(TEXT)
    flipped = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]  # the checksum stands there
    for name, content in (("flipped", flipped), ("cut", whole[: len(whole) // 2])):
        path = tmp_path / name
        path.write_bytes(content)
        assert read([path], "gzip", tmp_path)[1] is False


def test_a_reader_that_gives_up_leaves_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(TEXT))
    with feeding([recognised(path, "gzip")], tmp_path) as fed, fed.files[0].file.path.open("rb") as pipe:
        assert pipe.read(4) == TEXT[:4]
    assert fed.is_sound


def test_json_is_not_fed_since_its_reader_would_keep_the_whole_text(tmp_path: Path) -> None:
    """200 MiB of lines within an engine of 256 MiB, none of it lost, and a cut end still seen."""
    line = b'{"cost": "0.25", "labels": [{"key": "note", "value": "' + b"x" * 4000 + b'"}]}\n'
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(line * 50_000, compresslevel=1))
    shape = Shape("jsonl", "gzip", columns=("cost", "labels"))
    file = Recognised(
        LandingFile(path, path.name, path.stat().st_size), shape, "billing", "gcp-jsonl", "gcp", {"family": "gcp"}
    )
    con = store.connect("256MiB", 2, tmp_path)
    columns = {"cost": "VARCHAR", "labels": "STRUCT(key VARCHAR, value VARCHAR)[]"}
    with feeding([file], tmp_path) as fed:
        opened = source.open_source(con, "bill", fed.files, tmp_path, columns, lambda _: list(columns))
    assert con.execute(f"select sum(cost::decimal(9,2)), sum(len(labels)) from {opened.relation}").fetchone() == (
        Decimal("12500.00"),
        50_000,
    )
    path.write_bytes(path.read_bytes()[:-100_000])
    assert salvage.readable([file], tmp_path, is_checked_later=is_fed)[1][0].startswith(
        "a.json.gz: the compressed data"
    )
