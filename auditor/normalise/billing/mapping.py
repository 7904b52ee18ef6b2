"""How a bill's lines become FOCUS rows, in the three steps that every format has.

`parts` says which FOCUS rows a line may become, `DESCRIBED` what each of them is, `amounts` what it costs. What a row is
depends on its key and part alone, so that a bill of millions of lines is described once for each key; what it costs is
worked out on numbers. `rows` is the three in one, for lines that were not added up.
"""

from auditor.focus import MEASURES


def rows(amounts: str, described: str) -> str:
    """SQL of the FOCUS rows of lines that bear their keys, with `start_at`, `end_at`, `hourly`, `bill_day` and `source_rows`."""
    measures = ", ".join(MEASURES)
    return f"select {described}, {measures}, start_at, end_at, hourly, bill_day, source_rows from ({amounts})"
