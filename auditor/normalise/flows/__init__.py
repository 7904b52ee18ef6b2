"""Flow logs: bytes between two addresses by the hour, from AWS VPC, GCP VPC and Azure VNet flow logs.

Only accepted traffic counts. What a row of `flows_seen` means:

- `resource_id` is the machine that saw the bytes, where the log names it, else its network interface or address; the
  inventory's aliases resolve each of them.
- `source_address` and `destination_address` are the true ends of the packet (`pkt-srcaddr`, `pkt-dstaddr` on AWS), and
  `direction` is as seen by `resource_id`.
- Each byte stands once. Both ends of a flow may log it: for a pair of addresses, in an hour, the reporter with most
  bytes speaks, the sender where they agree. Records that were delivered twice count once.
- A NAT gateway is no end. Its rows have `path = 'nat'`: the legs towards its clients, whose true ends are the client
  and the far side, so that bytes are told by client; its legs towards the far side are the same bytes and are left
  out. They stand beside the clients' own rows: whoever adds up talkers leaves `path = 'nat'` out, whoever looks at
  gateways takes just them.
- `peer_service` is the provider's service at the far end as the log writes it (`S3`, `DYNAMODB`, `AMAZON`;
  `storage.googleapis.com`). AWS tells no region of it: `peer_region_id` is filled where the path does (a gateway
  endpoint serves its own region only), else null.
"""

from auditor.normalise.flows.load import load
from auditor.normalise.flows.recognise import recognise

__all__ = ["load", "recognise"]
