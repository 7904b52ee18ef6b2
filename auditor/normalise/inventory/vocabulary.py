"""What vendors call a resource, in our words."""

import re

RESOURCE_TYPES = (
    "instance",
    "volume",
    "file_system",
    "nat_gateway",
    "load_balancer",
    "address",
    "private_endpoint",
    "subnet",
    "route_table",
    "network",
    "placement_group",
    "capacity_reservation",
    "commitment",
    "notebook",
    "endpoint",
    "training_job",
    "node_pool",
    "tpu_node",
    "ml_compute",
    "bucket",
    "snapshot",
    "other",
)

# Read in order, against the vendor's word without case and separators: `AWS::EC2::NatGateway` is `awsec2natgateway`,
# `compute.googleapis.com/Instance` is `computegoogleapiscominstance`. Parts of a thing come before the thing.
_WORDS: tuple[tuple[str, str], ...] = (
    (
        r"networkinterface|instancetemplate|instancegroup|dbinstance|dbcluster|sqladmin|redis|bigtable|bigquery|spanner|memcache",
        "other",
    ),
    (
        r"virtualmachines(extensions|runcommands)|endpointconfig|deployments?$|virtualmachinesimages|backendservice|targetgroup",
        "other",
    ),
    (
        r"capacityreservationgroups?$|reservationorders?$|savingsplanorders?$|securitygroup|serviceattachment|securitypolic|firewall",
        "other",
    ),
    (r"microsoftcapacity|reservationorder|savingsplan|billingbenefits", "commitment"),
    (r"snapshot|machineimage|recoverypoint", "snapshot"),
    (r"natgateway|cloudnat|routernat|^nat$|^nats$|^gcpnat", "nat_gateway"),
    (r"notebook|workbench|computeinstance$", "notebook"),
    (r"trainingjob|customjob|trainingpipeline|commandjob|workspacesjobs?$|^job$|hyperparametertuning", "training_job"),
    (
        r"capacityreservation|capacityblock|reservedcapacity|comreservation$|^reservation$|gcereservation",
        "capacity_reservation",
    ),
    (
        r"commitment|reservationorder|savingsplan|reservedinstance|reservedvm|microsoftcapacity|billingbenefits|^cud|^reservedinstances?",
        "commitment",
    ),
    (
        r"vpcendpoint|privateendpoint|interfaceendpoint|gatewayendpoint|pscendpoint|privateserviceconnect|vpce$",
        "private_endpoint",
    ),
    (
        r"onlineendpoint|batchendpoint|sagemakerendpoint|aiplatform.*endpoint|inferenceendpoint|modelendpoint|mlendpoint|^endpoint$",
        "endpoint",
    ),
    (r"agentpool|nodepool|nodegroup|scalesets?$|autoscalinggroup", "node_pool"),
    (r"tpu|queuedresource", "tpu_node"),
    (r"workspacescomputes|amlcompute|computecluster|mlcompute", "ml_compute"),
    (r"placementgroup|placementpolic|proximityplacement|resourcepolic", "placement_group"),
    (
        r"filesystem|filestore|fsx|awsefs|^efs|elasticfile|lustre|netapp|capacitypool|fileshare|fileservices(shares)?$|^filegoogleapis|parallelstore|nfs",
        "file_system",
    ),
    (r"storageaccount|bucket|blobcontainer|objectstore|^s3$|^gcs$", "bucket"),
    (r"volume|disk|^ebs|blockstorage", "volume"),
    (r"loadbalanc|forwardingrule|applicationgateway|targetpool|^(aws)?elb|^[an]lb$", "load_balancer"),
    (r"publicip|address|elasticip|(^|ec2)eip$|staticip", "address"),
    (r"routetable", "route_table"),
    (r"subnet", "subnet"),
    (r"^route$", "other"),
    (r"(^|ec2)vpcs?$|virtualnetworks?$|networks?$|^vnet$", "network"),
    (r"virtualmachine|instance|^vm$|^vms$|^node$|^server$|^host$|^machine$", "instance"),
)
_COMPILED = tuple((re.compile(pattern), word) for pattern, word in _WORDS)


def neutral_type(vendor_word: str | None) -> str:
    """Our word for a vendor's resource type; `other` where it is none that rules read."""
    compact = re.sub(r"[^a-z0-9]", "", (vendor_word or "").lower())
    for pattern, word in _COMPILED:
        if pattern.search(compact):
            return word
    return "other"


# Names that people and tools give to one attribute, without case and separators, and ours for it.
_ATTRIBUTES = {
    "machine_type": "machinetype instancetype vmsize instancesize shape flavor machinespec",
    "accelerator_model": "acceleratormodel gpumodel gputype acceleratortype gpu accelerator",
    "accelerator_count": "acceleratorcount gpucount gpus numgpus accelerators",
    "network_id": "networkid vpcid vpc vnet vnetid network virtualnetwork",
    "subnet_id": "subnetid subnet subnetwork subnetworkid",
    "placement_group": "placementgroup placement placementgroupname placementgroupid proximityplacementgroup",
    "has_rdma": "hasrdma rdma efa efaenabled infiniband rdmaenabled",
    "lifecycle": "lifecycle purchaseoption pricingmodel provisioningmodel instancelifecycle",
    "stopped_at": "stoppedat stoptime laststoptime laststoptimestamp lastdeallocatedat",
    "launched_at": "launchedat launchtime laststarttimestamp laststartedat",
    "volume_type": "volumetype disktype",
    "size_gib": "sizegib sizegb size capacitygib capacitygb storagecapacity disksizegb provisionedgib",
    "provisioned_iops": "provisionediops iops diskiopsreadwrite",
    "provisioned_mibps": "provisionedmibps throughput throughputmibps provisionedthroughput diskmbpsreadwrite throughputcapacity provisionedmbps",
    "instance_id": "instanceid attachedinstance attachedinstanceid attachedto_instance vm",
    "file_system_type": "filesystemtype fstype",
    "connectivity": "connectivity connectivitytype",
    "address": "address publicip ipaddress ip",
    "attached_to": "attachedto associatedwith associationid",
    "service": "service servicename",
    "endpoint_type": "endpointtype vpcendpointtype",
    "route_table_ids": "routetableids routetables",
    "private_google_access": "privategoogleaccess privateipgoogleaccess",
    "service_endpoints": "serviceendpoints",
    "is_main": "ismain main",
    "associations": "associations",
    "routes": "routes",
    "reserved_count": "reservedcount totalinstancecount count instancesreserved quantity",
    "used_count": "usedcount inusecount instancesused",
    "starts_at": "startsat start starttime startdate starttimestamp",
    "ends_at": "endsat end endtime enddate endtimestamp expirydate expires",
    "term": "term plan duration",
    "uses_spot": "usesspot spot managedspottraining enablemanagedspottraining preemptible",
    "started_at": "startedat trainingstarttime",
    "ended_at": "endedat trainingendtime finishedat",
    "instance_count": "instancecount nodecount replicas numnodes",
    "checkpoint_uri": "checkpointuri checkpoints3uri checkpointpath",
    "compute_type": "computetype",
}
_NEUTRAL = {spelling: name for name, spellings in _ATTRIBUTES.items() for spelling in spellings.split()}


def neutral_attribute(name: str) -> str:
    """Our name for an attribute; a name that we do not know stays as it is written."""
    return _NEUTRAL.get(re.sub(r"[^a-z0-9_]", "", name.lower()).replace("_", ""), name)
