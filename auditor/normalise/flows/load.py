"""Adds flow logs up to hours and pairs of addresses, each byte once. All work on records is done in SQL."""

import json
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import zstandard

from auditor.landing import Recognised, SourceReport
from auditor.normalise.flows.recognise import field_names
from auditor.normalise.inventory.documents import flat, read
from auditor.normalise.look import open_decoded
from auditor.views import FLOWS

# One record of any vendor: who reported it, from where to where, when, how much.
_RECORDS = {
    "provider": "VARCHAR",
    "network": "VARCHAR",  # keeps equal private addresses of different networks apart
    "reporter": "VARCHAR",
    "resource_id": "VARCHAR",
    "source_address": "VARCHAR",
    "destination_address": "VARCHAR",
    "hop_source": "VARCHAR",
    "hop_destination": "VARCHAR",
    "hour": "TIMESTAMP",
    "direction": "VARCHAR",
    "peer_service": "VARCHAR",
    "peer_region_id": "VARCHAR",
    "zone": "VARCHAR",
    "path": "VARCHAR",
    "bytes": "DECIMAL(38,0)",
    "is_machine": "BOOLEAN",
}

_PATHS = {
    "1": "vpc",
    "2": "internet_or_gateway_endpoint",
    "3": "virtual_private_gateway",
    "4": "peering",
    "5": "inter_region_peering",
    "6": "local_gateway",
    "7": "gateway_endpoint",
    "8": "internet_gateway",
}


def load(con: duckdb.DuckDBPyConnection, files: Sequence[Recognised]) -> list[SourceReport]:
    """Appends the files' flows to `flows_seen` (created if absent); one report a file.

    One row per reporting resource, pair of addresses, hour, direction, peer service and path. Files that are given
    together are compared with each other, so give all of an audit at once. Rejected and empty records are left out;
    lines that cannot be read, and records that the service itself says it lost, are counted in the file's message.
    """
    columns = ", ".join(f'"{name}" {kind}' for name, kind in FLOWS.items())
    con.execute(f"create table if not exists flows_seen ({columns})")
    records = ", ".join(f'"{name}" {kind}' for name, kind in _RECORDS.items())
    con.execute(f"create or replace temp table flow_records ({records})")
    fields = ", ".join(f'"{name}" VARCHAR' for name in _AWS_FIELDS)
    con.execute(f"create or replace temp table aws_flows ({fields})")
    reports = [_load_file(con, one) for one in files]
    con.execute(_AWS_RECORDS)
    con.execute(_OWN_ADDRESSES)
    con.execute(_SETTLED)
    for name in ("flow_records", "flow_lines", "aws_flows", "own_addresses"):
        con.execute(f"drop table if exists {name}")
    return reports


def _load_file(con: duckdb.DuckDBPyConnection, recognised: Recognised) -> SourceReport:
    notes: list[str] = []
    rows = 0
    failed = False
    with tempfile.TemporaryDirectory(prefix="auditor-flows-") as folder:
        path, damage = _whole_part(recognised, Path(folder))
        if damage is not None:
            notes.append(damage)
            failed = True
        try:
            rows, more = _READERS[recognised.format](con, recognised, path)
            notes.extend(more)
        except duckdb.Error as error:
            failed = True
            notes.append(str(error).splitlines()[0])
            if recognised.provider != "aws":
                rows = _read_salvaged(con, recognised, Path(folder))
    if failed:
        notes.append(f"{rows} records read before the damage")
    return SourceReport(
        recognised.provider,
        "flows",
        recognised.format,
        [recognised.file.name],
        1,
        rows,
        [],
        "failed" if failed else "ok",
        "; ".join(notes) or None,
    )


def _whole_part(recognised: Recognised, folder: Path) -> tuple[Path, str | None]:
    """The file itself, or a decoded copy where it is compressed, up to the damage where it is damaged."""
    if recognised.shape.compression == "none":
        return recognised.file.path, None
    copy = folder / "decoded"
    damage = None
    with copy.open("wb") as target:
        try:
            with open_decoded(recognised.file.path, recognised.shape.compression) as stream:
                # small parts: of a part that ends in damage nothing is returned
                while part := stream.read(1 << 13):
                    target.write(part)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            damage = f"the compressed data is damaged or cut off ({error})"
    return copy, damage


# The fields that are read; a format that lacks one leaves it null. `ambiguous_in` names the file whose records cannot be
# told from their repetitions, else it is empty.
_AWS_FIELDS = (
    "ambiguous_in",
    "account-id",
    "vpc-id",
    "subnet-id",
    "instance-id",
    "interface-id",
    "resource-id",
    "tgw-id",
    "tgw-attachment-id",
    "srcaddr",
    "dstaddr",
    "pkt-srcaddr",
    "pkt-dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
    "az-id",
    "region",
    "flow-direction",
    "pkt-src-aws-service",
    "pkt-dst-aws-service",
    "traffic-path",
)


# A separator that no log holds, so that a line stays whole: DuckDB then reads and splits in parallel.
_LINES = "read_csv(?, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false, auto_detect = false, strict_mode = false)"


def _read_aws_text(con: duckdb.DuckDBPyConnection, recognised: Recognised, path: Path) -> tuple[int, list[str]]:
    fields: list[str] = list(recognised.details["fields"])
    delimiter = str(recognised.details["delimiter"])
    # Runs of blanks are looked for only where the look found one: the replacement costs as much as all the rest.
    line = (
        "regexp_replace(trim(line), ' +', ' ', 'g')" if "  " in recognised.shape.head else "trim(line, ' ' || chr(13))"
    )
    con.execute(
        f"create or replace temp table flow_lines as select string_split({line}, ?) as cells from {_LINES} where trim(line) <> ''",
        [delimiter, str(path)],
    )
    # A header stands at the top of each part that was joined into one file.
    is_header = f"lower(replace(cells[{fields.index('bytes') + 1}], '_', '-')) in ('bytes', '${{bytes}}')"
    whole = f"len(cells) = {len(fields)} and not ({is_header})"
    _insert_aws(
        con,
        {name: f"cells[{place + 1}]" for place, name in enumerate(fields)},
        f"flow_lines where {whole}",
        recognised.file.name,
    )
    odd, rows = _counts(
        con, f"select count(*) filter (len(cells) <> {len(fields)}), count(*) filter ({whole}) from flow_lines"
    )
    notes = [f"{odd} lines have another number of fields than the header and were left out"] if odd else []
    if "log-status" in fields:
        lost, _ = _counts(
            con,
            f"select count(*) filter (cells[{fields.index('log-status') + 1}] = 'SKIPDATA'), 0 from flow_lines where {whole}",
        )
        notes.extend(_lost_note(lost))
    return rows, notes


def _read_aws_parquet(con: duckdb.DuckDBPyConnection, recognised: Recognised, path: Path) -> tuple[int, list[str]]:
    quoted = dict(zip(field_names(recognised.shape.columns), recognised.shape.columns, strict=True))
    source = "(select * from read_parquet($path, hive_partitioning = false))"
    _insert_aws(
        con, {name: f'"{column}"' for name, column in quoted.items()}, source, recognised.file.name, path=str(path)
    )
    status = quoted.get("log-status")
    lost_rows = f"count(*) filter (\"{status}\" = 'SKIPDATA')" if status else "0"
    found = con.execute(
        f"select {lost_rows}, count(*) from read_parquet(?, hive_partitioning = false)", [str(path)]
    ).fetchone()
    lost, rows = (int(found[0]), int(found[1])) if found else (0, 0)
    return rows, _lost_note(lost)


def _lost_note(lost: int) -> list[str]:
    return [f"in {lost} intervals the service lost records (SKIPDATA): bytes are a lower bound"] if lost else []


def _counts(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, int]:
    found = con.execute(query).fetchone()
    return (int(found[0] or 0), int(found[1] or 0)) if found else (0, 0)


def _insert_aws(
    con: duckdb.DuckDBPyConnection, expressions: dict[str, str], source: str, name: str, path: str | None = None
) -> None:
    # Without ports two records of one interval may be two connections; then nothing can be called a repetition.
    unique = {"srcport", "dstport", "protocol"} <= set(expressions) and bool(
        {"interface-id", "instance-id"} & set(expressions)
    )
    values = ["$name" if not unique else "''"]
    values.extend(
        f"nullif({expressions[field]}::varchar, '-')" if field in expressions else "null" for field in _AWS_FIELDS[1:]
    )
    parameters = {"name": name} if not unique else {}
    if path is not None:
        parameters["path"] = path
    con.execute(f"insert into aws_flows select {', '.join(values)} from {source}", parameters)


# Repetitions (a network and its subnet both logged, a file sent twice) go first. `srcaddr` is an address of the
# interface that logged; the packet's own ends differ from it at a NAT gateway and for secondary addresses.
_AWS_RECORDS = f"""
insert into flow_records
with ports_known as (
    select distinct * from aws_flows where ambiguous_in = ''
    union all
    select * from aws_flows where ambiguous_in <> ''
),

accepted as (
    select
        *,
        coalesce("pkt-srcaddr", srcaddr) as source_address,
        coalesce("pkt-dstaddr", dstaddr) as destination_address,
        case lower("flow-direction") when 'ingress' then 'ingress' when 'egress' then 'egress' end as direction
    from ports_known
    where coalesce(upper(action), 'ACCEPT') = 'ACCEPT'
        and coalesce(upper("log-status"), 'OK') = 'OK'
        and try_cast(bytes as decimal(38, 0)) > 0
        and try_cast(start as double) is not null
)

select
    'aws',
    coalesce("vpc-id", "account-id", ''),
    coalesce("interface-id", "instance-id", "tgw-attachment-id", "resource-id", ''),
    coalesce("instance-id", "interface-id", "resource-id", "tgw-attachment-id", "tgw-id"),
    source_address,
    destination_address,
    coalesce(srcaddr, source_address),
    coalesce(dstaddr, destination_address),
    date_trunc('hour', make_timestamp((try_cast(start as double) * 1000000)::bigint)),
    direction,
    case direction
        when 'ingress' then coalesce("pkt-src-aws-service", "pkt-dst-aws-service")
        else coalesce("pkt-dst-aws-service", "pkt-src-aws-service")
    end,
    case when "traffic-path" in ('1', '4', '7') then region end,
    "az-id",
    case "traffic-path" {" ".join(f"when '{code}' then '{word}'" for code, word in _PATHS.items())} end,
    sum(try_cast(bytes as decimal(38, 0))),
    bool_or("instance-id" is not null)
from accepted
where source_address is not null and destination_address is not null
group by all
"""

# Version 2 tells no direction. The interface's own address is the one that stands in most of its records.
_OWN_ADDRESSES = """
create or replace temp table own_addresses as
with ends as (
    select reporter, unnest([hop_source, hop_destination]) as address from flow_records where direction is null and provider = 'aws'
),

counted as (
    select reporter, address, count(*) as records from ends group by all
),

ranked as (
    select reporter, address, records, rank() over (partition by reporter order by records desc) as place from counted
)

select reporter, min(address) as address from ranked where place = 1 group by reporter having count(*) = 1
"""

_SETTLED = """
insert into flows_seen
with directed as (
    select
        records.* replace (
            coalesce(
                records.direction,
                case own.address when records.hop_source then 'egress' when records.hop_destination then 'ingress' end
            ) as direction
        )
    from flow_records as records
    left join own_addresses as own using (reporter)
),

passed_on as (
    -- Packets that are neither from nor to the interface's own address: a gateway passes them on, and so does, to all
    -- appearance, a machine with secondary addresses (pods).
    select
        provider,
        reporter,
        direction,
        case when direction = 'ingress' then destination_address else source_address end as address
    from directed
    where not is_machine
        and provider = 'aws'
        and reporter <> ''
        and ((direction = 'ingress' and destination_address <> hop_destination) or (direction = 'egress' and source_address <> hop_source))
),

hops as (
    select distinct provider, reporter, unnest([hop_source, hop_destination]) as address from directed where not is_machine
),

translating as (
    -- A gateway also talks to the far side under its own name, or the far side is public; a pod's address is neither.
    select
        passed_on.provider,
        passed_on.reporter,
        bool_or(passed_on.direction = 'ingress') as sees_requests,
        bool_or(passed_on.direction = 'egress') as sees_answers
    from passed_on
    left join hops using (provider, reporter, address)
    where hops.address is not null
        or not regexp_matches(passed_on.address, '^(10\\.|172\\.(1[6-9]|2[0-9]|3[01])\\.|192\\.168\\.|100\\.(6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])\\.|f[cd]|fe80)')
    group by all
),

legs as (
    select
        directed.* replace (
            case when translating.reporter is not null then 'nat' else directed.path end as path
        ),
        translating.reporter is not null as is_gateway,
        -- the far leg of the same bytes
        translating.reporter is not null and (
            (directed.direction = 'egress' and directed.source_address = directed.hop_source and translating.sees_requests)
            or (directed.direction = 'ingress' and directed.destination_address = directed.hop_destination and translating.sees_answers)
        ) as is_repeated
    from directed
    left join translating using (provider, reporter)
),

sides as (
    select provider, network, source_address, destination_address, bool_or(direction = 'egress') as has_sender, bool_or(direction = 'ingress') as has_receiver
    from legs
    where not is_gateway
    group by all
),

lone as (
    -- Peered networks have no address in common: a pair that only its sender's network and only its receiver's network
    -- log is one flow, told twice.
    select provider, source_address, destination_address
    from sides
    group by all
    having count(*) = 2
        and bool_and(has_sender <> has_receiver)
        and bool_or(has_sender)
        and bool_or(has_receiver)
),

told as (
    select
        legs.*,
        case when lone.provider is not null then '' else legs.network end as scope,
        case when legs.is_gateway then legs.reporter else '' end as gateway
    from legs
    left join lone using (provider, source_address, destination_address)
    where not legs.is_repeated
),

by_reporter as (
    select provider, scope, gateway, source_address, destination_address, hour, reporter, direction, sum(bytes) as bytes
    from told
    group by all
),

speaking as (
    select
        *,
        row_number() over (
            partition by provider, scope, gateway, source_address, destination_address, hour
            order by bytes desc, direction asc nulls last, reporter asc
        ) as place
    from by_reporter
)

select
    told.provider,
    told.hour,
    told.resource_id,
    told.source_address,
    told.destination_address,
    told.peer_service,
    told.peer_region_id,
    told.zone,
    told.direction,
    told.path,
    sum(told.bytes)
from told
inner join speaking
    on speaking.provider = told.provider
    and speaking.scope = told.scope
    and speaking.gateway = told.gateway
    and speaking.source_address = told.source_address
    and speaking.destination_address = told.destination_address
    and speaking.hour = told.hour
    and speaking.reporter = told.reporter
    and speaking.direction is not distinct from told.direction
where speaking.place = 1
group by all
"""

_GCP_RECORDS = """
insert into flow_records
with payloads as (
    select
        coalesce(entry -> '$.jsonPayload', entry -> '$.json_payload') as payload,
        entry ->> '$.resource.labels.project_id' as project
    from flow_entries
),

fields as (
    select
        payload,
        coalesce(payload ->> '$.reporter', 'SRC') as reporter,
        payload ->> '$.connection.src_ip' as source_address,
        payload ->> '$.connection.dest_ip' as destination_address,
        coalesce(payload ->> '$.src_vpc.vpc_name', payload ->> '$.dest_vpc.vpc_name', '') as network,
        coalesce(payload ->> '$.src_vpc.project_id', payload ->> '$.dest_vpc.project_id', project, '') as network_project,
        payload -> '$.src_instance' as source,
        payload -> '$.dest_instance' as destination,
        coalesce(payload ->> '$.start_time', payload ->> '$.end_time') as start_time,
        try_cast(payload ->> '$.bytes_sent' as decimal(38, 0)) as bytes
    from payloads
),

ends as (
    select
        *,
        case when starts_with(reporter, 'DEST') then destination else source end as own,
        case when starts_with(reporter, 'DEST') then source else destination end as peer,
        case when starts_with(reporter, 'DEST') then 'ingress' else 'egress' end as direction
    from fields
    where bytes > 0 and source_address is not null and destination_address is not null and try_cast(start_time as timestamp) is not null
)

select
    'gcp',
    network_project || '/' || network,
    reporter || ' ' || coalesce(own ->> '$.vm_name', case direction when 'egress' then source_address else destination_address end),
    coalesce(
        '//compute.googleapis.com/projects/' || (own ->> '$.project_id') || '/zones/' || (own ->> '$.zone') || '/instances/' || (own ->> '$.vm_name'),
        own ->> '$.vm_name',
        case direction when 'egress' then source_address else destination_address end
    ),
    source_address,
    destination_address,
    source_address,
    destination_address,
    date_trunc('hour', try_cast(start_time as timestamp)),
    direction,
    coalesce(
        case direction when 'egress' then payload ->> '$.dest_google_service.service_name' else payload ->> '$.src_google_service.service_name' end,
        case direction when 'egress' then payload ->> '$.dest_google_service.type' else payload ->> '$.src_google_service.type' end
    ),
    peer ->> '$.region',
    own ->> '$.zone',
    case
        when own ->> '$.zone' = peer ->> '$.zone' then 'same_zone'
        when own ->> '$.region' = peer ->> '$.region' then 'inter_zone'
        when (own ->> '$.region') is not null and (peer ->> '$.region') is not null then 'inter_region'
        when coalesce(payload -> '$.dest_google_service', payload -> '$.src_google_service') is not null then 'google_service'
        when coalesce(payload ->> '$.dest_location.country', payload ->> '$.src_location.country') is not null then 'internet'
    end,
    sum(bytes),
    (own ->> '$.vm_name') is not null
from ends
group by all
"""

# A tuple is `time, source, destination, ports, protocol, direction, state, encryption, packets and bytes there, packets
# and bytes back`; figures of a continued flow are since its last record, so all add up. Without figures the flow has
# only begun. NSG logs (version 2) put the decision before the state and have no encryption.
_AZURE_RECORDS = """
insert into flow_records
with records as (
    select
        coalesce(entry ->> '$.targetResourceID', entry ->> '$.resourceId') as target,
        coalesce(entry ->> '$.macAddress', '') as mac,
        entry
    from flow_entries
),

tuples as (
    select
        target,
        mac,
        string_split(unnest(from_json(json_extract(entry, '$.flowRecords.flows[*].flowGroups[*].flowTuples[*]'), '["VARCHAR"]')), ',') as cells,
        false as is_nsg
    from records
    union all
    select
        target,
        mac,
        string_split(unnest(from_json(json_extract(entry, '$.properties.flows[*].flows[*].flowTuples[*]'), '["VARCHAR"]')), ',') as cells,
        true as is_nsg
    from records
),

flows as (
    select
        target,
        mac,
        cells[2] as client,
        cells[3] as server,
        try_cast(cells[1] as bigint) as seconds,
        upper(cells[7]) as side,
        try_cast(cells[11] as decimal(38, 0)) as sent,
        try_cast(cells[13] as decimal(38, 0)) as answered
    from (select distinct * from tuples)
    where case when is_nsg then upper(cells[8]) = 'A' else upper(cells[8]) <> 'D' end
),

both_ways as (
    select target, mac, client as source_address, server as destination_address, seconds, case side when 'O' then 'egress' else 'ingress' end as direction, sent as bytes
    from flows
    union all
    select target, mac, server, client, seconds, case side when 'O' then 'ingress' else 'egress' end, answered
    from flows
)

select
    'azure',
    lower(case when contains(lower(target), '/virtualnetworks/') then regexp_replace(lower(target), '/subnets/.*', '') else '' end),
    case when mac = '' then case direction when 'egress' then source_address else destination_address end else mac end,
    case
        when contains(lower(target), '/networkinterfaces/') then lower(target)
        else case direction when 'egress' then source_address else destination_address end
    end,
    source_address,
    destination_address,
    source_address,
    destination_address,
    date_trunc('hour', make_timestamp(case when seconds > 100000000000 then seconds * 1000 else seconds * 1000000 end)),
    direction,
    null,
    null,
    null,
    null,
    sum(bytes),
    true
from both_ways
where bytes > 0 and seconds is not null
group by all
"""


def _read_json(
    con: duckdb.DuckDBPyConnection, recognised: Recognised, path: Path, statement: str
) -> tuple[int, list[str]]:
    envelope = recognised.details.get("envelope")
    # One blob of an hour is one document, however large.
    limit = max(path.stat().st_size + 1, 1 << 24)
    source = "read_json_objects($path, format = 'auto', maximum_object_size = $limit)"
    opened = f"unnest(from_json(coalesce(json -> '$.{envelope}', '[]'::json), '[\"JSON\"]'))" if envelope else "json"
    con.execute(
        f"create or replace temp table flow_entries as select {opened} as entry from {source}",
        {"path": str(path), "limit": limit},
    )
    if recognised.provider == "gcp":
        con.execute(
            "create or replace temp table flow_entries as select any_value(entry) as entry from flow_entries group by coalesce(entry ->> '$.insertId', entry::varchar)"
        )
    con.execute(statement)
    rows, _ = _counts(con, "select count(*), 0 from flow_entries")
    con.execute("drop table flow_entries")
    return rows, []


def _read_salvaged(con: duckdb.DuckDBPyConnection, recognised: Recognised, folder: Path) -> int:
    """The whole entries of a JSON document that breaks off."""
    entries = [entry for value in flat(read(con, recognised).values) for entry in _entries(value)]
    path = folder / "salvaged.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    if not entries:
        return 0
    plain = replace(recognised, details={})
    return _READERS[recognised.format](con, plain, path)[0]


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        return []
    return next((value[key] for key in ("records", "entries") if isinstance(value.get(key), list)), [value])


def _read_gcp(con: duckdb.DuckDBPyConnection, recognised: Recognised, path: Path) -> tuple[int, list[str]]:
    return _read_json(con, recognised, path, _GCP_RECORDS)


def _read_azure(con: duckdb.DuckDBPyConnection, recognised: Recognised, path: Path) -> tuple[int, list[str]]:
    return _read_json(con, recognised, path, _AZURE_RECORDS)


_READERS: dict[str, Callable[[duckdb.DuckDBPyConnection, Recognised, Path], tuple[int, list[str]]]] = {
    "aws-vpc-flow-log-text": _read_aws_text,
    "aws-vpc-flow-log-parquet": _read_aws_parquet,
    "gcp-vpc-flow-log-json": _read_gcp,
    "azure-vnet-flow-log-json": _read_azure,
    "azure-nsg-flow-log-json": _read_azure,
}
