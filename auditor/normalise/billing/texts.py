"""Numbers and dates as bills write them, as SQL macros; and which of two readings of a date a file means.

A DOUBLE of up to a thousand has its 12 decimals exact; above that the shortest text of the number is what the bill
meant, not the binary noise behind it; of a FLOAT, which has seven digits, it is always that. Text that is no number becomes null here and is counted apart.
"""

import re
from collections.abc import Iterable, Mapping

import duckdb

MACROS = """
create or replace temp macro blank_to_null(x) as
    case when trim(x) in ('', 'NULL', 'null', 'None', 'N/A', 'NaN') then null else trim(x) end;
create or replace temp macro money_of_double(x) as
    case when typeof(x) <> 'FLOAT' and abs(x) < 1000 then try_cast(x as decimal(30,12)) else try_cast(x::varchar as decimal(30,12)) end;
create or replace temp macro quantity_of_double(x) as
    case when typeof(x) <> 'FLOAT' and abs(x) < 1000 then try_cast(x as decimal(38,12)) else try_cast(x::varchar as decimal(38,12)) end;

-- `$1,234.50 `, `(12.00)`: what a spreadsheet makes of an amount. `0,125` is a decimal comma out of place: no number.
-- DuckDB takes 1_0 for ten, which no bill means. The plain way comes first and by CASE, whose branches DuckDB does not work out for rows that do not take them.
create or replace temp macro is_dressed(x) as
    contains(x, ',') or contains(x, '$') or contains(x, '(') or contains(x, '€') or contains(x, '£') or contains(x, '¥');
create or replace temp macro without_sign(x) as
    regexp_replace(regexp_replace(trim(x), '^\\((.*)\\)$', '-\\1'), '^(-?)\\s*[$€£¥]\\s*|\\s*[$€£¥]$', '\\1');
create or replace temp macro plain_number(x) as
    case when regexp_matches(without_sign(x), '^-?[1-9]\\d{0,2}(,\\d{3})+(\\.\\d*)?$') then replace(without_sign(x), ',', '') else without_sign(x) end;
create or replace temp macro money_of_text(x) as
    case when contains(x, '_') then null when is_dressed(x) then try_cast(plain_number(x) as decimal(30,12)) else try_cast(x as decimal(30,12)) end;
create or replace temp macro quantity_of_text(x) as
    case when contains(x, '_') then null when is_dressed(x) then try_cast(plain_number(x) as decimal(38,12)) else try_cast(x as decimal(38,12)) end;
-- What does not fit a DECIMAL(30,12), infinity and NaN are no amounts either.
create or replace temp macro is_no_number(x) as
    case
        when money_of_text(x) is not null then false
        else blank_to_null(x) is not null or trim(x) = 'NaN'
    end;

-- A file whose numbers have decimal commas: `1.234,56`.
create or replace temp macro with_point(x) as
    case when x like '%,%' then replace(replace(x, '.', ''), ',', '.') else x end;
create or replace temp macro money_of_comma_text(x) as money_of_text(with_point(x));
create or replace temp macro quantity_of_comma_text(x) as quantity_of_text(with_point(x));
create or replace temp macro is_no_comma_number(x) as is_no_number(with_point(x));

-- Only years from 2000 to 2099 are dates of a bill: `9999-12-31` stands for none, year 1 is a blank of some language.
-- DuckDB takes 5/1/25 for the year 5, so its own reading is asked only where a year of four digits stands in front.
create or replace temp macro plain_time(x) as
    case
        when x[5] = '-' and not prefix(x, '20') then null
        when x[5] = '-' then case when suffix(x, ' UTC') then try_cast(replace(x, ' UTC', '') as timestamp) else try_cast(x as timestamp) end
        when regexp_matches(trim(x), '^20\\d\\d-') then try_cast(trim(x) as timestamp)
        when regexp_matches(trim(x), '^20\\d\\d/') then try_strptime(trim(x), ['%Y/%m/%d', '%Y/%m/%d %H:%M:%S'])
        when regexp_matches(trim(x), '^\\d{16}$') and trim(x) between '0946684800000000' and '4102444799999999' then make_timestamp(trim(x)::bigint)
        when regexp_matches(trim(x), '^\\d+-[A-Za-z]{3}-(20)?\\d\\d$') then try_strptime(regexp_replace(trim(x), '-(\\d\\d)$', '-20\\1'), '%d-%b-%Y')
        when regexp_matches(trim(x), '^20\\d{6}$|20\\d\\d$') then try_strptime(trim(x), ['%Y%m%d', '%d.%m.%Y', '%b %d, %Y'])
    end;
create or replace temp macro time_of_text(x) as
    case
        when x[5] = '-' and not prefix(x, '20') then null
        when x[5] = '-' and not suffix(x, ' UTC') then try_cast(x as timestamp)
        when not contains(x, '/') or (x[5] = '/' and x[2] <> '/' and x[3] <> '/') then plain_time(x)
        when regexp_matches(trim(x), '^\\d+/\\d+/\\d{2}( |$)') then try_strptime(trim(x), ['%m/%d/%y', '%m/%d/%y %H:%M', '%m/%d/%y %I:%M:%S %p'])
        when regexp_matches(trim(x), '/20\\d\\d( |$)') then try_strptime(trim(x), ['%m/%d/%Y', '%m/%d/%Y %H:%M:%S', '%m/%d/%Y %H:%M', '%m/%d/%Y %I:%M:%S %p'])
    end;
create or replace temp macro time_of_day_first(x) as
    case
        when x[5] = '-' and not prefix(x, '20') then null
        when x[5] = '-' and not suffix(x, ' UTC') then try_cast(x as timestamp)
        when not contains(x, '/') or (x[5] = '/' and x[2] <> '/' and x[3] <> '/') then plain_time(x)
        when regexp_matches(trim(x), '^\\d+/\\d+/\\d{2}( |$)') then try_strptime(trim(x), ['%d/%m/%y', '%d/%m/%y %H:%M'])
        when regexp_matches(trim(x), '/20\\d\\d( |$)') then try_strptime(trim(x), ['%d/%m/%Y', '%d/%m/%Y %H:%M:%S', '%d/%m/%Y %H:%M'])
    end;
-- The end of a charge that has none lies beyond every bill, so that its length tells.
create or replace temp macro is_endless(x) as x[5] = '-' and x >= '21';
"""

_SLASHED = re.compile(r"\b\d{1,2}/\d{1,2}/(\d{4}|\d{2})\b")
_COMMA = re.compile(r'(?:^|[;\t])"?-?\d+,\d+"?(?=[;\t\r\n])', re.MULTILINE)
_POINT = re.compile(r'(?:^|[;\t])"?-?\d+\.\d+"?(?=[;\t\r\n])', re.MULTILINE)
_PERIODS = ("billingperiodstartdate", "billingperiodstart")
_DATES = ("date", "usagedatetime", "usagedate", "chargeperiodstart", "lineitemusagestartdate", "usagestarttime")


def has_decimal_commas(head: str, delimiter: str) -> bool:
    return delimiter in ";\t" and _COMMA.search(head) is not None and _POINT.search(head) is None


def is_day_first(con: duckdb.DuckDBPyConnection, relation: str, columns: dict[str, str], head: str) -> bool:
    """Whether dates such as 9/2/2026 name the day first.

    A first number above twelve is a day. Billing periods start on the first of a month, which tells as well. Else the
    reading counts that puts the lines into fewer months, as a bill is of one or two; where both do, the month is first.
    """
    if not _SLASHED.search(head):
        return False
    first, second, firsts, seconds = _parts(con, relation, _first_text(columns, _PERIODS))
    if first is not None and second is not None and (firsts == 1) != (seconds == 1):
        return firsts == 1 and first == 1
    first, second, firsts, seconds = _parts(con, relation, _first_text(columns, _DATES))
    if first is None or second is None:
        return False
    return first > 12 or (second <= 12 and firsts > seconds and not (seconds == 1 and second == 1))


def dates(columns: Mapping[str, str]) -> list[str]:
    """Columns that `is_day_first` looks at."""
    return [name for name in (_first_text(columns, _PERIODS), _first_text(columns, _DATES)) if name]


def _first_text(columns: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((name for name in names if columns.get(name) == "VARCHAR"), None)


def _parts(
    con: duckdb.DuckDBPyConnection, relation: str, column: str | None
) -> tuple[int | None, int | None, int, int]:
    """Largest first and second number of a column's dates, and how many different ones there are."""
    if column is None:
        return None, None, 0, 0
    found = con.execute(f"""
        select max(first), max(second), count(distinct first), count(distinct second)
        from (
            select
                try_cast(split_part(trim("{column}"), '/', 1) as integer) as first,
                try_cast(split_part(trim("{column}"), '/', 2) as integer) as second
            from {relation} where "{column}" like '%/%/%'
        )
    """).fetchone()
    return (found[0], found[1], int(found[2]), int(found[3])) if found else (None, None, 0, 0)
