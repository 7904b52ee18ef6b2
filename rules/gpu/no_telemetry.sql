/* rule
id       = "gpu.no_telemetry"
title    = "Accelerator cost that too few samples cover"
status   = "stable"
stage    = "inform"
severity = "medium"
clouds   = ["aws", "gcp", "azure"]

why = """
Without utilisation samples nobody can say whether an accelerator works or idles. No cloud reports it by itself for
plain machines: an agent or exporter has to run on them."""

savings  = "none: this is cost at risk"
blind_to = "accelerators on bills without resource ids, to which no sample could be joined"

references = [
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Agent-NVIDIA-GPU.html",
    "https://cloud.google.com/compute/docs/gpus/monitor-gpus",
    "https://learn.microsoft.com/azure/azure-monitor/agents/azure-monitor-agent-overview",
    "https://github.com/NVIDIA/dcgm-exporter",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "usage_kind", "hour", "device", "machine_type", "accelerator_model",
    "accelerator_hours", "coverage",
]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "day"]

[parameters]
min_coverage = { default = 0.8, unit = "samples seen / samples expected", about = "below it a machine gets no verdict on its use" }

[remedy.aws]
summary  = "Run the CloudWatch agent with its nvidia_gpu section, or the DCGM or Neuron exporter, on the machine"
commands = ["aws ssm send-command --region {region_id} --document-name AWS-ConfigureAWSPackage --instance-ids {resource_short_id} --parameters 'action=Install,name=AmazonCloudWatchAgent'"]
terraform = '''
resource "aws_ssm_association" "{resource_label}_agent" {
  name = "AWS-ConfigureAWSPackage"

  parameters = {
    action = "Install"
    name   = "AmazonCloudWatchAgent"
  }

  targets {
    key    = "InstanceIds"
    values = [{resource_short_id}]
  }
}
'''
risk     = "Custom metrics cost a little; the agent needs an instance profile that may write them."
effort   = "hours"

[remedy.aws.variants.sagemaker]
when     = ':sagemaker:'
summary  = "Deliver the metrics that SageMaker writes to CloudWatch by itself"
commands = ["aws cloudwatch list-metrics --region {region_id} --namespace /aws/sagemaker/Endpoints"]
risk     = "None in looking."

[remedy.gcp]
summary  = "Install the Ops Agent, which reports GPU metrics, on the machine"
commands = ["gcloud compute instances ops-agents policies list --project {sub_account_id}"]
terraform = '''
# Every machine with the label gets the Ops Agent; give it to {resource_short_id}.
module "ops_agent" {
  source        = "terraform-google-modules/cloud-operations/google//modules/ops-agent-policy"
  project       = {sub_account_id}
  zone          = var.zone
  assignment_id = "ops-agent-on-accelerators"

  agents_rule = {
    package_state = "installed"
    version       = "latest"
  }

  instance_filter = {
    all = false
    inclusion_labels = [{ labels = { ops-agent = "yes" } }]
  }
}
'''
risk     = "Agent metrics cost a little."
effort   = "hours"

[remedy.gcp.variants.vertex]
when     = 'aiplatform|notebooks'
summary  = "Deliver the metrics that Vertex AI writes to Cloud Monitoring by itself"
commands = ["gcloud ai endpoints list --project {sub_account_id} --region {region_id}"]
risk     = "None in looking."

[remedy.azure]
summary  = "Run the DCGM exporter with Azure Monitor managed Prometheus, or Telegraf's nvidia_smi input, on the machine"
commands = ["az vm extension list --ids {resource_id}"]
terraform = '''
resource "azurerm_virtual_machine_extension" "{resource_label}_exporter" {
  name                 = "dcgm-exporter"
  virtual_machine_id   = {resource_id}
  publisher            = "Microsoft.Azure.Extensions"
  type                 = "CustomScript"
  type_handler_version = "2.1"
  settings             = jsonencode({ commandToExecute = var.command_that_starts_the_exporter })
}
'''
risk     = "Custom metrics cost a little."
effort   = "hours"

[remedy.azure.variants.machine_learning]
when     = 'machinelearningservices'
summary  = "Deliver the metrics that Azure Machine Learning writes to Azure Monitor by itself"
commands = ["az monitor metrics list-definitions --resource {resource_id}"]
risk     = "None in looking."
*/
with machines as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        count(distinct device) as devices,
        sum(accelerator_hours) as accelerator_hours,
        sum(least(coalesce(coverage, 0), 1) * accelerator_hours::double) / nullif(sum(accelerator_hours)::double, 0) as coverage
    from accelerator_hours
    where
        ResourceId is not null
        and usage_kind is distinct from 'accelerator.reserved_unused'  -- where nothing runs there is nothing to sample
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency
),

resource_cost as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        sum(EffectiveCost) as effective_cost
    from charges
    where day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
)

select
    machines.provider,
    machines.ResourceId,
    machines.SubAccountId,
    machines.RegionId,
    machines.BillingCurrency,
    resource_cost.effective_cost,
    0 as committed_cost,
    0 as avoidable_cost,
    0 as avoidable_low,
    0 as avoidable_high,
    'high' as confidence,
    case
        when machines.coverage > 0
            then format('only {:.1f} % of the expected samples arrived: no verdict on its use', floor(round(1000 * machines.coverage, 6)) / 10)
        else format('no sample of {:.1f} accelerator hours arrived: no verdict on its use', machines.accelerator_hours::double)
    end as reason,
    machines.machine_type,
    machines.accelerator_model,
    machines.devices,
    machines.accelerator_hours,
    round(machines.coverage, 4) as coverage
from machines
inner join resource_cost using (provider, ResourceId, BillingCurrency)
where
    machines.coverage < $min_coverage
    and machines.accelerator_hours > 0
    and resource_cost.effective_cost > 0  -- what costs nothing puts nothing at risk
order by resource_cost.effective_cost desc, machines.ResourceId asc
