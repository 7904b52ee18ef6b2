"""Price lists as the clouds' own tools print them, from the file to `prices_seen`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.landing import LandingFile, SourceReport
from auditor.normalise import prices
from auditor.normalise.recognise import sort_files

Reader = Callable[..., list[SourceReport]]


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


@pytest.fixture
def read(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> Reader:
    def read(**contents: Any) -> list[SourceReport]:
        files = []
        for name, content in contents.items():
            data = (
                content if isinstance(content, bytes) else content if isinstance(content, str) else json.dumps(content)
            )
            path = tmp_path / name
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
            files.append(LandingFile(path, name, path.stat().st_size))
        found = sort_files(files)
        assert [one.kind for one in found.recognised] == ["prices"] * len(contents), found
        return prices.load(con, found.recognised)

    return read


def seen(con: duckdb.DuckDBPyConnection, columns: str = "machine_type, price_kind, low, high") -> list[tuple[Any, ...]]:
    return con.execute(f"select {columns} from prices_seen order by all").fetchall()


def ec2(sku: str, machine: str, **attributes: str) -> dict[str, Any]:
    return {
        "sku": sku,
        "productFamily": "Compute Instance",
        "attributes": {
            "servicecode": "AmazonEC2",
            "instanceType": machine,
            "regionCode": "eu-west-1",
            "locationType": "AWS Region",
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            **attributes,
        },
    }


def term(*dimensions: tuple[str, str], **attributes: str) -> dict[str, Any]:
    return {
        "priceDimensions": {str(i): {"unit": u, "pricePerUnit": {"USD": p}} for i, (u, p) in enumerate(dimensions)},
        "termAttributes": attributes,
    }


OFFER = {
    "formatVersion": "v1.0",
    "offerCode": "AmazonEC2",
    "publicationDate": "2026-10-02T10:11:12Z",
    "products": {
        "A": ec2("A", "p5.48xlarge"),
        "B": ec2("B", "p5.48xlarge", operatingSystem="Windows"),
        "C": ec2("C", "p5.48xlarge", marketoption="CapacityBlock"),
        "D": ec2("D", "m5.large"),
        "E": ec2("E", "g6.xlarge"),
    },
    "terms": {
        "OnDemand": {
            "A": {"A.1": term(("Hrs", "55.0400000000"))},
            "B": {"B.1": term(("Hrs", "63.8"))},
            "C": {"C.1": term(("Hrs", "0.0000000000"))},
            "D": {"D.1": term(("Hrs", "0.107"))},
            "E": {"E.1": term(("Hrs", "0.0000000000"))},
        },
        "Reserved": {
            "A": {
                "A.2": term(("Hrs", "36.0"), LeaseContractLength="1yr", PurchaseOption="No Upfront"),
                "A.3": term(
                    ("Quantity", "262800"), ("Hrs", "0.0"), LeaseContractLength="1yr", PurchaseOption="All Upfront"
                ),
            }
        },
    },
}


def test_an_offer_file_prices_plain_linux_machines_and_the_hours_part_of_an_upfront_fee(
    con: duckdb.DuckDBPyConnection, read: Reader
) -> None:
    (report,) = read(offer=OFFER)
    assert seen(con) == [
        ("p5.48xlarge", "commit_1y", Decimal(30), Decimal(36)),
        ("p5.48xlarge", "on_demand", Decimal("55.04"), Decimal("55.04")),
    ]
    assert seen(con, "distinct provider, RegionId, accelerator_model, accelerator_count, unit, currency, as_of") == [
        ("aws", "eu-west-1", "H100", 8, "hour", "USD", "2026-10-02")
    ]
    assert (report.status, report.rows) == ("ok", 2)
    assert "1 prices dropped (0 or less" in (report.message or "")


def test_an_offer_file_that_breaks_off_fails_and_keeps_what_stands_before(
    con: duckdb.DuckDBPyConnection, read: Reader
) -> None:
    whole = json.dumps(OFFER, indent=1)
    (report,) = read(offer=gzip.compress(whole[: whole.index('"Reserved"')].encode()))
    assert report.status == "failed" and "breaks off" in (report.message or "")
    assert seen(con) == [("p5.48xlarge", "on_demand", Decimal("55.04"), Decimal("55.04"))]


def test_an_answer_of_get_products_is_read_from_its_texts(con: duckdb.DuckDBPyConnection, read: Reader) -> None:
    training = {
        "productFamily": "ML Instance",
        "attributes": {
            "servicecode": "AmazonSageMaker",
            "instanceName": "ml.p4d.24xlarge",
            "regionCode": "us-east-1",
            "component": "Training",
        },
    }
    documents = [
        {
            "product": product,
            "serviceCode": "x",
            "publicationDate": "2026-10-01T00:00:00Z",
            "terms": {"OnDemand": {"x": term(("Hrs", price))}},
        }
        for product, price in ((ec2("A", "p4d.24xlarge"), "21.9"), (training, "25.2"))
    ]
    read(answer={"FormatVersion": "aws_v1", "PriceList": [json.dumps(document) for document in documents]})
    assert seen(con, "machine_type, low, RegionId, accelerator_model") == [
        ("ml.p4d.24xlarge", Decimal("25.2"), "us-east-1", "A100 40GB"),
        ("p4d.24xlarge", Decimal("21.9"), "eu-west-1", "A100 40GB"),
    ]


def spot(zone: str, price: str, at: str, **more: str) -> dict[str, str]:
    return {
        "AvailabilityZone": zone,
        "InstanceType": "p5.48xlarge",
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": at,
        **more,
    }


def test_the_newest_spot_price_of_each_zone_counts_and_one_above_on_demand_is_refused(
    con: duckdb.DuckDBPyConnection, read: Reader
) -> None:
    history = [
        spot("eu-west-1a", "20.5", "2026-10-01T00:00:00+00:00"),
        spot("eu-west-1a", "17.5", "2026-10-03T00:00:00.000Z"),
        spot("eu-west-1b", "55.04", "2026-10-02T00:00:00+00:00"),
        spot("eu-west-1c", "99", "2026-10-02T00:00:00+00:00"),
        spot("eu-west-1a", "70", "2026-10-04T00:00:00+00:00", ProductDescription="Windows"),
    ]
    _, report = read(offer=OFFER, spot={"SpotPriceHistory": history})
    assert con.execute(
        "select AvailabilityZone, low, as_of from prices_seen where price_kind = 'spot' order by all"
    ).fetchall() == [
        ("eu-west-1a", Decimal("17.5"), "2026-10-03T00:00:00Z"),
        ("eu-west-1b", Decimal("55.04"), "2026-10-02T00:00:00Z"),
    ]
    assert "1 spot prices dropped (above the on-demand price" in (report.message or "")


def sku(description: str, units: int, nanos: int, usage: str = "OnDemand", unit: str = "h") -> dict[str, Any]:
    rates = [{"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": str(units), "nanos": nanos}}]
    return {
        "skuId": description,
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": ["us-east4"],
        "pricingInfo": [
            {
                "effectiveTime": "2026-10-05T01:02:03Z",
                "pricingExpression": {"usageUnit": unit, "tieredRates": rates},
            }
        ],
    }


A3 = [
    sku("Nvidia H100 80GB GPU running in Virginia", 9, 796_550_000),
    sku("Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Virginia", 4, 0),
    sku("A3 Instance Core running in Virginia", 0, 30_000_000),
    sku("A3 Instance Ram running in Virginia", 0, 2_500_000, unit="GiBy.h"),
]


def test_a_machine_of_google_is_put_together_from_its_parts_over_all_pages(
    con: duckdb.DuckDBPyConnection, read: Reader
) -> None:
    read(
        one={"skus": A3[:2], "nextPageToken": "x"},
        two={"skus": [*A3[2:], sku("TpuV6e running in Virginia", 2, 700_000_000)]},
    )
    # 8 x 9.79655 + 208 x 0.03 + 1872 x 0.0025
    assert ("a3-highgpu-8g", "on_demand", Decimal("89.2924"), Decimal("89.2924")) in seen(con)
    assert ("TPU v6e chip", "on_demand", Decimal("2.7"), Decimal("2.7")) in seen(con)
    assert not [row for row in seen(con) if row[0].startswith("a3-mega")]


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_machine_without_one_of_its_parts_has_no_price(
    con: duckdb.DuckDBPyConnection, read: Reader, missing: int
) -> None:
    parts = [A3[0], *A3[2:]]
    parts[missing - 1] = sku(parts[missing - 1]["description"], 0, 0)
    (report,) = read(page={"skus": parts})
    assert seen(con) == []
    assert "1 are 0, which is not free" in (report.message or "")


def test_an_on_demand_price_below_spot_is_refused_at_google(con: duckdb.DuckDBPyConnection, read: Reader) -> None:
    (report,) = read(
        page=[
            sku("A4 Nvidia B200 (1 gpu slice) running in Virginia", 3, 0),
            sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Virginia", 4, 0),
        ]
    )
    assert seen(con) == [("a4-highgpu-8g", "spot", Decimal(32), Decimal(32))]
    assert "1 on-demand prices dropped (below the spot price" in (report.message or "")


def vm(price: float, **more: Any) -> dict[str, Any]:
    return {
        "currencyCode": "EUR",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": "westeurope",
        "effectiveStartDate": "2026-06-01T00:00:00Z",
        "productName": "Virtual Machines NDsrH100v5 Series",
        "skuName": "ND96isrH100v5",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": "Standard_ND96isr_H100_v5",
        **more,
    }


def test_azure_reservations_are_of_a_whole_term_and_windows_hides_in_the_products_name(
    con: duckdb.DuckDBPyConnection, read: Reader
) -> None:
    (report,) = read(
        page={
            "Items": [
                vm(100.5, savingsPlan=[{"term": "1 Year", "retailPrice": 70.25, "unitPrice": 70.25}]),
                vm(40.0, skuName="ND96isrH100v5 Spot"),
                vm(20.0, skuName="ND96isrH100v5 Low Priority"),
                vm(140.0, productName="Virtual Machines NDsrH100v5 Series Windows"),
                vm(525600.0, type="Reservation", reservationTerm="1 Year"),
                vm(0.0, skuName="ND96isrH100v5 Spot", armRegionName="northeurope"),
            ],
            "NextPageLink": None,
        }
    )
    assert seen(con, "price_kind, low, variant, accelerator_model, currency, RegionId") == [
        ("commit_1y", Decimal(60), "reservation", "H100", "EUR", "westeurope"),
        ("commit_1y", Decimal("70.25"), "savings plan", "H100", "EUR", "westeurope"),
        ("on_demand", Decimal("100.5"), "", "H100", "EUR", "westeurope"),
        ("spot", Decimal(40), "", "H100", "EUR", "westeurope"),
    ]
    assert "1 are of Windows machines" in (report.message or "")


TABLE = """provider,RegionId,machine_type,accelerator_model,accelerator_count,price_kind,low,high,unit,currency,source,as_of
aws,eu-west-1,p5.48xlarge,H100,8,on_demand,6.5,6.75,accelerator-hour,USD,our contract,2026-09-01
aws,eu-west-1,g6.xlarge,L4,,on_demand,0.8,0.8,hour,USD,,2026-09-01
aws,eu-west-1,p4d.24xlarge,,,on_demand,20,20,hour,,our contract,2026-09-01
gcp,us-east4,a2-ultragpu-8g,H100,8,on_demand,30,30,hour,USD,our contract,2026-09-01
aws,eu-west-1,g5.xlarge,,,on_demand,700,700,month,USD,our contract,2026-09-01
"""


def test_a_table_states_unit_and_currency_and_a_device_price_becomes_the_machines(
    con: duckdb.DuckDBPyConnection, read: Reader
) -> None:
    (report,) = read(table=TABLE)
    assert seen(con, "machine_type, low, high, unit, source") == [
        ("g6.xlarge", Decimal("0.8"), Decimal("0.8"), "hour", "price table table"),
        ("p5.48xlarge", Decimal(52), Decimal(54), "hour", "our contract"),
    ]
    message = report.message or ""
    for what in ("no provider, Region", "their unit is no hour", "their machine type has other accelerators"):
        assert f"1 prices dropped ({what}" in message


def test_a_table_saved_by_a_spreadsheet_is_read_in_its_encoding(con: duckdb.DuckDBPyConnection, read: Reader) -> None:
    read(table=TABLE.replace("our contract", "Rahmenvertrag für Maschinen").replace(",", ";").encode("cp1252"))
    assert seen(con, "machine_type, low, source")[1] == ("p5.48xlarge", Decimal(52), "Rahmenvertrag für Maschinen")


def test_a_machine_that_costs_twice_as_much_next_door_is_named(con: duckdb.DuckDBPyConnection, read: Reader) -> None:
    (report,) = read(
        table="provider,RegionId,machine_type,price_kind,low,unit,currency,source,as_of\n"
        "aws,us-east-1,p5.48xlarge,on_demand,50,hour,USD,list,2026-09-01\n"
        "aws,us-west-2,p5.48xlarge,on_demand,110,hour,USD,list,2026-09-01\n"
        "aws,sa-east-1,p5.48xlarge,on_demand,120,hour,USD,list,2026-09-01\n"
    )
    assert report.rows == 3
    assert "p5.48xlarge costs 110.00 USD an hour in us-west-2 and 50.00 in us-east-1" in (report.message or "")


@pytest.mark.parametrize("block", [1, 7, 64])
def test_a_list_is_read_the_same_in_blocks_of_any_size(
    con: duckdb.DuckDBPyConnection, read: Reader, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("auditor.normalise.prices.stream._BLOCK", block)
    read(offer=b"\xef\xbb\xbf" + json.dumps(OFFER, indent=2).encode())
    assert [row[1] for row in seen(con)] == ["commit_1y", "on_demand"]
