"""Flow logs as the three clouds write them, in small."""

import gzip
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.landing import LandingFile, Recognised, SourceReport
from auditor.normalise import flows
from auditor.normalise.look import look

FIELDS = "version account-id vpc-id instance-id interface-id srcaddr dstaddr pkt-srcaddr pkt-dstaddr srcport dstport protocol bytes start end action log-status az-id flow-direction pkt-src-aws-service pkt-dst-aws-service traffic-path"
NOON = int(datetime.fromisoformat("2026-10-15T12:00:00+00:00").timestamp())
SHARED = Path(__file__).resolve().parents[4] / "shared"


def record(**fields: Any) -> str:
    """One record of the fields above, a plain accepted one but for what is given."""
    plain = {
        "version": 5,
        "account-id": "111122223333",
        "vpc-id": "vpc-0a",
        "srcport": 40000,
        "dstport": 443,
        "protocol": 6,
        "bytes": 1000,
        "start": NOON,
        "end": NOON + 59,
        "action": "ACCEPT",
        "log-status": "OK",
        "az-id": "use1-az1",
    }
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    given.setdefault("pkt-srcaddr", given.get("srcaddr"))
    given.setdefault("pkt-dstaddr", given.get("dstaddr"))
    return " ".join(str({**plain, **given}.get(name, "-")) for name in FIELDS.split())


def landed(path: Path, content: str | bytes) -> Recognised:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return taken(path)


def taken(path: Path) -> Recognised:
    file = LandingFile(path, path.name, path.stat().st_size)
    recognised = flows.recognise(file, look(file))
    assert recognised is not None and recognised.kind == "flows"
    return recognised


def loaded(files: Sequence[Recognised]) -> tuple[list[dict[str, Any]], list[SourceReport]]:
    with duckdb.connect() as con:
        reports = flows.load(con, files)
        cursor = con.execute("select * from flows_seen order by resource_id, source_address, hour")
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()], reports


def aws(tmp_path: Path, *records: str, fields: str = FIELDS) -> list[dict[str, Any]]:
    return loaded([landed(tmp_path / "log.txt", "\n".join([fields, *records]) + "\n")])[0]


def test_records_of_one_pair_add_up_by_hour(tmp_path: Path) -> None:
    one = {
        "instance_id": "i-0a",
        "interface_id": "eni-0a",
        "srcaddr": "10.0.0.1",
        "dstaddr": "52.216.0.9",
        "flow_direction": "egress",
        "pkt_dst_aws_service": "S3",
        "traffic_path": 8,
    }
    rows = aws(
        tmp_path,
        record(**one),
        record(**one, srcport=40001, bytes=500),
        record(**one, start=NOON + 3600, end=NOON + 3659, bytes=7),
    )
    assert [(row["hour"].hour, row["bytes"]) for row in rows] == [(12, 1500), (13, 7)]
    assert rows[0]["resource_id"] == "i-0a"
    assert (rows[0]["peer_service"], rows[0]["path"], rows[0]["zone"]) == ("S3", "internet_gateway", "use1-az1")


def test_rejected_and_empty_records_carry_no_bytes(tmp_path: Path) -> None:
    ends = {"interface_id": "eni-0a", "srcaddr": "10.0.0.1", "dstaddr": "10.0.0.2", "flow_direction": "egress"}
    nothing = record(interface_id="eni-0a", log_status="NODATA", action="-", bytes="-")
    assert aws(tmp_path, record(**ends, action="REJECT"), nothing) == []


def test_a_flow_that_both_ends_log_counts_once_for_its_sender(tmp_path: Path) -> None:
    ends = {"srcaddr": "10.0.0.1", "dstaddr": "10.0.0.2"}
    rows = aws(
        tmp_path,
        record(**ends, instance_id="i-0b", interface_id="eni-0b", flow_direction="ingress"),
        record(**ends, instance_id="i-0a", interface_id="eni-0a", flow_direction="egress"),
    )
    assert [(row["resource_id"], row["direction"], row["bytes"]) for row in rows] == [("i-0a", "egress", 1000)]


def test_a_flow_between_peered_networks_counts_once(tmp_path: Path) -> None:
    ends = {"srcaddr": "10.0.0.1", "dstaddr": "10.9.0.2"}
    rows = aws(
        tmp_path,
        record(**ends, instance_id="i-0a", interface_id="eni-0a", flow_direction="egress"),
        record(**ends, instance_id="i-0b", interface_id="eni-0b", flow_direction="ingress", vpc_id="vpc-0b"),
    )
    assert sum(row["bytes"] for row in rows) == 1000


def test_networks_that_use_the_same_addresses_stay_apart(tmp_path: Path) -> None:
    ends = {"srcaddr": "10.0.0.1", "dstaddr": "10.0.0.2", "flow_direction": "egress"}
    rows = aws(
        tmp_path,
        record(**ends, instance_id="i-0a", interface_id="eni-0a"),
        record(**ends, instance_id="i-0c", interface_id="eni-0c", vpc_id="vpc-0c", account_id="444455556666"),
    )
    assert {row["resource_id"]: row["bytes"] for row in rows} == {"i-0a": 1000, "i-0c": 1000}


def test_a_record_delivered_twice_counts_once(tmp_path: Path) -> None:
    one = record(
        instance_id="i-0a", interface_id="eni-0a", srcaddr="10.0.0.1", dstaddr="10.0.0.2", flow_direction="egress"
    )
    again = [landed(tmp_path / name, f"{FIELDS}\n{one}\n") for name in ("network.txt", "subnet.txt")]
    assert [row["bytes"] for row in loaded(again)[0]] == [1000]


def test_a_nat_gateway_tells_the_true_ends_of_its_bytes_once(tmp_path: Path) -> None:
    gateway = {"interface_id": "eni-0f"}  # requester-managed: no instance
    s3, client, nat = "52.216.0.9", "10.0.0.1", "10.0.9.9"
    rows = aws(
        tmp_path,
        record(
            **gateway,
            srcaddr=client,
            dstaddr=nat,
            pkt_dstaddr=s3,
            flow_direction="ingress",
            pkt_dst_aws_service="S3",
            bytes=100,
        ),
        record(**gateway, srcaddr=nat, dstaddr=s3, flow_direction="egress", pkt_dst_aws_service="S3", bytes=100),
        record(**gateway, srcaddr=s3, dstaddr=nat, flow_direction="ingress", pkt_src_aws_service="S3", bytes=9000),
        record(
            **gateway,
            srcaddr=nat,
            pkt_srcaddr=s3,
            dstaddr=client,
            flow_direction="egress",
            pkt_src_aws_service="S3",
            bytes=9000,
        ),
    )
    assert {(row["source_address"], row["destination_address"]): row["bytes"] for row in rows} == {
        (client, s3): 100,
        (s3, client): 9000,
    }
    assert {(row["resource_id"], row["path"], row["peer_service"]) for row in rows} == {("eni-0f", "nat", "S3")}


def test_the_client_of_a_gateway_keeps_its_own_rows_beside_the_gateways(tmp_path: Path) -> None:
    s3, client, nat = "52.216.0.9", "10.0.0.1", "10.0.9.9"
    rows = aws(
        tmp_path,
        record(
            instance_id="i-0a", interface_id="eni-0a", srcaddr=client, dstaddr=s3, flow_direction="egress", bytes=100
        ),
        record(interface_id="eni-0f", srcaddr=client, dstaddr=nat, pkt_dstaddr=s3, flow_direction="ingress", bytes=100),
    )
    assert [(row["resource_id"], row["path"], row["bytes"]) for row in rows] == [
        ("eni-0f", "nat", 100),
        ("i-0a", None, 100),
    ]


def test_a_secondary_address_of_a_machine_does_not_make_it_a_gateway(tmp_path: Path) -> None:
    pod = {
        "instance_id": "i-0a",
        "interface_id": "eni-0a",
        "flow_direction": "egress",
        "srcaddr": "10.0.0.1",
        "pkt_srcaddr": "10.0.0.77",
        "dstaddr": "10.0.0.2",
    }
    plain = {
        "instance_id": "i-0a",
        "interface_id": "eni-0a",
        "flow_direction": "egress",
        "srcaddr": "10.0.0.1",
        "dstaddr": "10.0.0.3",
    }
    rows = aws(tmp_path, record(**pod), record(**plain))
    assert [(row["source_address"], row["path"]) for row in rows] == [("10.0.0.1", None), ("10.0.0.77", None)]


def test_pods_are_no_gateway_though_the_log_names_no_machine(tmp_path: Path) -> None:
    node = {"interface_id": "eni-0a"}
    rows = aws(
        tmp_path,
        record(**node, flow_direction="egress", srcaddr="10.0.0.1", pkt_srcaddr="10.0.0.77", dstaddr="10.0.0.2"),
        record(**node, flow_direction="ingress", srcaddr="10.0.0.2", dstaddr="10.0.0.1", pkt_dstaddr="10.0.0.77"),
        record(**node, flow_direction="egress", srcaddr="10.0.0.1", dstaddr="10.0.0.3"),
    )
    assert sum(row["bytes"] for row in rows) == 3000 and {row["path"] for row in rows} == {None}


def test_the_default_format_without_header_is_read_and_its_direction_inferred(tmp_path: Path) -> None:
    lines = [
        f"2 111122223333 eni-0a1b2c3d 10.0.0.1 10.0.0.{host} 40000 443 6 10 1000 {NOON} {NOON + 59} ACCEPT OK\n2 111122223333 eni-0a1b2c3d 10.0.0.{host} 10.0.0.1 443 40000 6 10 20 {NOON} {NOON + 59} ACCEPT OK"
        for host in (2, 3)
    ]
    rows, reports = loaded([landed(tmp_path / "cloudwatch.log", "\n".join(lines))])
    assert {(row["source_address"], row["direction"]) for row in rows} == {
        ("10.0.0.1", "egress"),
        ("10.0.0.2", "ingress"),
        ("10.0.0.3", "ingress"),
    }
    assert sum(row["bytes"] for row in rows) == 2040 and reports[0].rows == 4


def test_field_order_and_gzip_do_not_matter_and_repeated_headers_are_skipped(tmp_path: Path) -> None:
    header = "bytes dstaddr srcaddr start interface-id action"
    text = f"{header}\n5 10.0.0.2 10.0.0.1 {NOON} eni-0a ACCEPT\n{header}\n6 10.0.0.2 10.0.0.1 {NOON} eni-0a ACCEPT\n"
    rows, reports = loaded([landed(tmp_path / "x.gz", gzip.compress(text.encode()))])
    assert [row["bytes"] for row in rows] == [11]
    assert (reports[0].status, reports[0].rows, reports[0].message) == ("ok", 2, None)


def test_a_file_cut_off_is_failed_and_what_came_before_counts(tmp_path: Path) -> None:
    lines = "\n".join(
        record(
            interface_id="eni-0a",
            srcaddr="10.0.0.1",
            dstaddr=f"10.1.{n // 250}.{n % 250}",
            flow_direction="egress",
            srcport=n,
        )
        for n in range(5000)
    )
    whole = gzip.compress(f"{FIELDS}\n{lines}\n".encode())
    rows, reports = loaded([landed(tmp_path / "cut.gz", whole[: len(whole) // 2])])
    assert reports[0].status == "failed" and "before the damage" in (reports[0].message or "")
    assert 0 < len(rows) < 5000


def test_lost_records_and_odd_lines_are_told(tmp_path: Path) -> None:
    text = "\n".join(
        [FIELDS, record(interface_id="eni-0a", log_status="SKIPDATA", action="-", bytes="-"), "5 torn line"]
    )
    _, reports = loaded([landed(tmp_path / "log.txt", text)])
    assert "1 lines have another number of fields" in (reports[0].message or "") and "SKIPDATA" in (
        reports[0].message or ""
    )


def test_parquet_logs_add_up_like_text(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    with duckdb.connect() as con:
        con.execute(
            f"copy (select 5 as version, '111122223333' as account_id, 'eni-0a' as interface_id, '10.0.0.1' as srcaddr, '10.0.0.2' as dstaddr, 1 as srcport, 2 as dstport, 6 as protocol, 1000::bigint as bytes, {NOON}::bigint as start, 'ACCEPT' as action, 'OK' as log_status, 'egress' as flow_direction, '7' as traffic_path, 'us-east-1' as region, 'DYNAMODB' as pkt_dst_aws_service) to '{path}' (format parquet)"
        )
    rows, reports = loaded([taken(path)])
    assert [(row["bytes"], row["peer_service"], row["path"], row["peer_region_id"]) for row in rows] == [
        (1000, "DYNAMODB", "gateway_endpoint", "us-east-1")
    ]
    assert reports[0].rows == 1


def gcp_entry(reporter: str, **payload: Any) -> dict[str, Any]:
    return {
        "insertId": f"{reporter}-{len(json.dumps(payload))}",
        "logName": "projects/acme-ml/logs/compute.googleapis.com%2Fvpc_flows",
        "resource": {"type": "gce_subnetwork", "labels": {"project_id": "acme-ml"}},
        "jsonPayload": {
            "connection": {"src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "src_port": 1, "dest_port": 2, "protocol": 6},
            "reporter": reporter,
            "bytes_sent": "4096",
            "start_time": "2026-10-15T12:10:00.123456789Z",
            "src_instance": {
                "project_id": "acme-ml",
                "region": "us-central1",
                "zone": "us-central1-a",
                "vm_name": "train-0",
            },
            "dest_instance": {
                "project_id": "acme-ml",
                "region": "us-central1",
                "zone": "us-central1-b",
                "vm_name": "train-1",
            },
            **payload,
        },
    }


@pytest.mark.parametrize("form", ["lines", "array", "entries"])
def test_google_logs_count_a_flow_once_and_tell_the_zones_apart(tmp_path: Path, form: str) -> None:
    entries = [gcp_entry("DEST"), gcp_entry("SRC")]
    text = {
        "lines": "\n".join(map(json.dumps, entries)),
        "array": json.dumps(entries, indent=1),
        "entries": json.dumps({"entries": entries}),
    }[form]
    rows, _ = loaded([landed(tmp_path / "gcp.json", text)])
    assert [(row["resource_id"], row["bytes"], row["path"], row["zone"]) for row in rows] == [
        (
            "//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/train-0",
            4096,
            "inter_zone",
            "us-central1-a",
        )
    ]
    assert rows[0]["hour"] == datetime(2026, 10, 15, 12)


def test_google_logs_name_the_service_at_the_far_end(tmp_path: Path) -> None:
    entry = gcp_entry(
        "SRC", dest_instance=None, dest_google_service={"type": "GOOGLE_API", "service_name": "storage.googleapis.com"}
    )
    rows, _ = loaded([landed(tmp_path / "gcp.json", json.dumps(entry))])
    assert [(row["peer_service"], row["path"]) for row in rows] == [("storage.googleapis.com", "google_service")]


def azure_record(mac: str, *tuples: str) -> dict[str, Any]:
    return {
        "time": "2026-10-15T12:00:52Z",
        "flowLogVersion": 4,
        "macAddress": mac,
        "category": "FlowLogFlowEvent",
        "targetResourceID": "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/vnet-a",
        "flowRecords": {"flows": [{"aclID": "x", "flowGroups": [{"rule": "Default", "flowTuples": list(tuples)}]}]},
    }


def test_azure_tuples_count_both_ways_and_each_byte_once(tmp_path: Path) -> None:
    at = NOON * 1000
    there = f"{at},10.0.0.6,10.0.0.7,23956,443,6,O,C,NX,5,600,7,7000"
    denied = f"{at},10.0.0.6,10.0.0.8,23956,443,6,O,D,NX,5,600,0,0"
    records = [azure_record("0022481D0001", there, denied), azure_record("0022481D0002", there.replace(",O,", ",I,"))]
    rows, _ = loaded([landed(tmp_path / "PT1H.json", json.dumps({"records": records}))])
    assert {(row["resource_id"], row["direction"]): row["bytes"] for row in rows} == {
        ("10.0.0.6", "egress"): 600,
        ("10.0.0.7", "egress"): 7000,
    }


def test_a_json_log_cut_off_is_failed_and_keeps_its_whole_entries(tmp_path: Path) -> None:
    at = NOON * 1000
    records = [
        azure_record(f"0022481D{n:04}", f"{at},10.0.0.{n},10.1.0.7,23956,443,6,O,C,NX,5,600,7,0") for n in range(1, 201)
    ]
    text = json.dumps({"records": records})
    rows, reports = loaded([landed(tmp_path / "PT1H.json", text[: len(text) // 2])])
    assert reports[0].status == "failed" and f"{reports[0].rows} records read before the damage" in (
        reports[0].message or ""
    )
    assert 50 < len(rows) == reports[0].rows < 200


def test_other_files_are_no_flow_logs(tmp_path: Path) -> None:
    for name, text in {
        "a.csv": "time,metric,value\n1,a,2\n",
        "b.json": '{"records": [{"category": "Audit"}]}',
        "c.txt": "bytes start only\n",
    }.items():
        (tmp_path / name).write_text(text)
        file = LandingFile(tmp_path / name, name, 1)
        assert flows.recognise(file, look(file)) is None


@pytest.mark.shared
def test_every_flow_log_of_the_sample_estate_loads() -> None:
    folder = SHARED / "estates" / "dev" / "data" / "flow-logs"
    if not folder.is_dir():
        pytest.skip("the team's sample files are absent")
    rows, reports = loaded([taken(path) for path in sorted(folder.iterdir())])
    assert rows and {report.status for report in reports} == {"ok"}
