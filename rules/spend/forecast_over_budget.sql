/* rule
id       = "spend.forecast_over_budget"
title    = "The month costs more than its budget"
status   = "stable"
stage    = "inform"
severity = "medium"
clouds   = ["aws", "gcp", "azure"]

why = """
A budget is read while there is time to act on it: the forecast adds to what the month has cost so far what the same
weekdays cost lately. Days whose bill may still grow count with what they bear already, and at least as a usual day. A month
that is over is compared as it stands."""

savings  = "none: what is above the budget is evidence"
blind_to = "fees that come only at the end of the month; charges in other currencies than the budget's; what is planned but has not begun"

references = [
    "https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html",
    "https://cloud.google.com/billing/docs/how-to/budgets",
    "https://learn.microsoft.com/azure/cost-management-billing/costs/tutorial-acm-create-budgets",
]

[needs]
budgets = ["provider", "name", "monthly", "currency", "account", "tag_key", "tag_value", "provider_count"]
charges = ["provider", "BillingAccountId", "SubAccountId", "BillingCurrency", "day", "Tags", "EffectiveCost", "ChargeFrequency"]

[parameters]
history_days = { default = 28, unit = "days before the end of the window", about = "four of every weekday tell what a day to come costs" }
min_weekdays = { default = 3, unit = "days of a weekday", about = "with fewer, the median of all days stands for that weekday" }
min_overrun  = { default = 0, unit = "ratio of the budget", about = "how far above the budget the month has to end" }

[remedy.aws]
summary  = "See which services made the month dearer, stop what is not needed, or raise the budget knowingly"
commands = ["aws ce get-cost-and-usage --time-period Start={month_start},End={costs_until} --granularity MONTHLY --metrics AmortizedCost --group-by Type=DIMENSION,Key=SERVICE"]
terraform = '''
resource "aws_budgets_budget" "forecast" {
  name         = {budget}
  budget_type  = "COST"
  limit_amount = "{budget_amount}"
  limit_unit   = {billing_currency}
  time_unit    = "MONTHLY"

  notification {
    comparison_operator        = "GREATER_THAN"
    notification_type          = "FORECASTED"
    threshold                  = 100
    threshold_type             = "PERCENTAGE"
    subscriber_email_addresses = [var.mail_address]
  }
}
'''
risk     = "None in looking."
effort   = "minutes"

[remedy.gcp]
summary  = "See which services made the month dearer, stop what is not needed, or raise the budget knowingly"
commands = ["gcloud billing budgets list --billing-account $BILLING_ACCOUNT"]
terraform = '''
resource "google_billing_budget" "forecast" {
  billing_account = var.billing_account
  display_name    = {budget}

  amount {
    specified_amount {
      currency_code = {billing_currency}
      units         = var.budget_in_whole_units # {budget_amount}
    }
  }

  threshold_rules {
    spend_basis       = "FORECASTED_SPEND"
    threshold_percent = 1.0
  }
}
'''
risk     = "None in looking."
effort   = "minutes"

[remedy.azure]
summary  = "See which services made the month dearer, stop what is not needed, or raise the budget knowingly"
commands = ["az consumption usage list --start-date {month_start} --end-date {costs_until} --output table"]
terraform = '''
resource "azurerm_consumption_budget_subscription" "forecast" {
  name            = {budget}
  subscription_id = "/subscriptions/{sub_account_id}"
  amount          = {budget_amount}
  time_grain      = "Monthly"

  time_period {
    start_date = "{month_start}T00:00:00Z"
  }

  notification {
    operator       = "GreaterThan"
    threshold      = 100
    threshold_type = "Forecasted"
    contact_emails = [var.mail_address]
  }
}
'''
risk     = "None in looking."
effort   = "minutes"
*/
with calendar as (
    select
        date_trunc('month', $window_end::date - 1)::date as month_start,
        (date_trunc('month', $window_end::date - 1) + interval 1 month)::date as month_end,
        $window_end::date as costs_until
),

spent as (
    select
        budgets.name,
        budgets.account,
        budgets.provider_count,
        budgets.currency,
        budgets.monthly,
        charges.provider,
        charges.day,
        sum(charges.EffectiveCost) as effective_cost,
        -- what is bought once or by the month does not come again on the same weekday
        coalesce(sum(charges.EffectiveCost) filter (where coalesce(charges.ChargeFrequency, 'Usage-Based') = 'Usage-Based'), 0) as running_cost
    from budgets
    join charges
        on
            budgets.provider = charges.provider
            and budgets.currency = charges.BillingCurrency
            and (budgets.account is null or lower(budgets.account) in (lower(charges.SubAccountId), lower(charges.BillingAccountId)))
    cross join calendar
    where
        charges.day >= least(calendar.month_start, calendar.costs_until - $history_days::integer)
        and charges.day < calendar.month_end
        and (
            budgets.tag_key is null
            or len(list_filter(
                map_entries(try_cast(try_cast(charges.Tags as json) as map (varchar, varchar))),
                lambda pair: regexp_replace(
                    regexp_replace(lower(pair['key']), '^((resourcetags/|resource_tags_|labels/|label_|user[:_]|aws[:_]|goog-)+)', ''), '[^a-z0-9]', '', 'g'
                ) = budgets.tag_key and lower(trim(pair['value'])) = budgets.tag_value
            )) > 0
        )
    group by all
),

by_provider as (
    select
        spent.name,
        spent.provider,
        sum(case when spent.day >= calendar.month_start and spent.day < calendar.costs_until then spent.effective_cost else 0 end) as effective_cost
    from spent
    cross join calendar
    group by spent.name, spent.provider
),

by_day as (
    select
        name,
        account,
        provider_count,
        currency,
        monthly,
        day,
        sum(effective_cost) as effective_cost,
        sum(running_cost) as running_cost
    from spent
    group by name, account, provider_count, currency, monthly, day
),

billed_days as (
    select distinct day
    from charges
),

begun as (
    select
        name,
        min(day) as first_day
    from by_day
    group by name
),

-- a day on which others spend and the budget does not is a day of nothing
history as (
    select
        begun.name,
        billed_days.day,
        coalesce(by_day.running_cost, 0) as running_cost
    from begun
    cross join calendar
    inner join billed_days
        on
            begun.first_day <= billed_days.day
            and calendar.costs_until - $history_days::integer <= billed_days.day
            and calendar.costs_until > billed_days.day
    left join by_day on begun.name = by_day.name and billed_days.day = by_day.day
),

weekdays as (
    select
        name,
        dayofweek(day) as weekday,
        median(running_cost) as usual_cost
    from history
    group by name, dayofweek(day)
    having count(*) >= $min_weekdays
),

usual_days as (
    select
        name,
        median(running_cost) as usual_cost
    from history
    group by name
),

days_to_come as (
    select unnest(range(calendar.costs_until, calendar.month_end, interval 1 day))::date as day
    from calendar
),

expected as (
    select
        usual_days.name,
        -- on top of what such a day bears already: the last days of a bill go on filling
        sum(greatest(coalesce(weekdays.usual_cost, usual_days.usual_cost) - coalesce(by_day.running_cost, 0), 0)) as expected_cost
    from usual_days
    cross join days_to_come
    left join weekdays on usual_days.name = weekdays.name and dayofweek(days_to_come.day) = weekdays.weekday
    left join by_day on usual_days.name = by_day.name and days_to_come.day = by_day.day
    group by usual_days.name
),

actual as (
    select
        by_day.name,
        by_day.account,
        by_day.provider_count,
        by_day.currency,
        by_day.monthly,
        coalesce(sum(by_day.effective_cost) filter (where by_day.day < calendar.costs_until), 0) as effective_cost,
        sum(by_day.effective_cost) as billed_cost
    from by_day
    cross join calendar
    where by_day.day >= calendar.month_start
    group by by_day.name, by_day.account, by_day.provider_count, by_day.currency, by_day.monthly
),

-- a budget of several clouds is told once, with the cloud that costs most
dearest as (
    select
        name,
        arg_max(provider, (effective_cost, provider)) as provider
    from by_provider
    group by name
),

forecast as (
    select
        dearest.provider,
        actual.name,
        actual.account,
        actual.provider_count,
        actual.currency,
        actual.monthly,
        actual.effective_cost,
        actual.billed_cost,
        actual.billed_cost + coalesce(expected.expected_cost, 0) as month_cost,
        calendar.month_start,
        calendar.costs_until,
        calendar.costs_until = calendar.month_end as is_over,
        date_diff('day', calendar.month_start, calendar.costs_until) as days_seen
    from actual
    join dearest on actual.name = dearest.name
    left join expected on actual.name = expected.name
    cross join calendar
)

select
    provider,
    null as ResourceId,
    account as SubAccountId,
    null as RegionId,
    currency as BillingCurrency,
    name as subject,
    month_start::timestamp as window_start,
    costs_until::timestamp as window_end,
    effective_cost,
    0 as committed_cost,
    0 as avoidable_cost,
    0 as avoidable_low,
    0 as avoidable_high,
    case when is_over then 'high' when days_seen >= 7 then 'medium' else 'low' end as confidence,
    case
        when is_over
            then
                format(
                    '{} cost {:.2f} {}, {:.2f} above the budget ', strftime(month_start, '%Y-%m'), month_cost::double, currency, (month_cost - monthly)::double
                )
        else format(
            '{} will end near {:.2f} {}, {:.2f} above the budget ', strftime(month_start, '%Y-%m'), month_cost::double, currency, (month_cost - monthly)::double
        )
    end || name as reason,
    name as budget,
    monthly as budget_amount,
    billed_cost::decimal(30, 2) as billed_cost,
    month_cost::decimal(30, 2) as month_cost,
    (month_cost - monthly)::decimal(30, 2) as overrun,
    strftime(month_start, '%Y-%m-%d') as month_start,
    strftime(costs_until, '%Y-%m-%d') as costs_until,
    case when provider_count > 1 then 'all providers' end as scope
from forecast
where month_cost > monthly * (1 + $min_overrun)
order by overrun desc, subject asc
