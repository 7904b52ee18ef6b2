/* rule
id       = "spend.anomaly"
title    = "A day's cost is far above its own history"
status   = "stable"
stage    = "inform"
severity = "medium"
clouds   = ["aws", "gcp", "azure"]

why = """
A loop that calls an interface, a log level left on debug, a fleet that nobody stopped: what goes wrong shows on the bill on
the same day and goes on until somebody looks. Usual cost is taken from the same weekdays of the last weeks, by medians, so that
weekends, single peaks and slow growth do not count. A rise that has lasted a week is the new usual cost: it is told once,
with low confidence, as a new level."""

savings  = "none: the excess over the usual day is evidence"
blind_to = "services with less than two weeks of history, which only their account's total shows; falls in cost; slow growth; days that the bill does not have yet"

references = [
    "https://docs.aws.amazon.com/cost-management/latest/userguide/manage-ad.html",
    "https://cloud.google.com/billing/docs/how-to/manage-anomalies",
    "https://learn.microsoft.com/azure/cost-management-billing/understand/analyze-unexpected-charges",
]

[needs]
charges = [
    "provider", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "ResourceId", "day", "ChargeCategory", "ChargeClass", "ChargeFrequency",
    "usage_kind", "purchase_option", "machine_type", "accelerator_model", "x_UsageType", "x_SkuDescription", "x_SkuMeterName", "EffectiveCost",
]

[parameters]
history_days  = { default = 56, unit = "days before the day looked at", about = "how far back peaks and what comes every month are looked for" }
baseline_days = { default = 28, unit = "days before the day looked at", about = "four of every weekday tell what is usual" }
lasting_days  = { default = 7, unit = "days with a bill", about = "after so many days on a higher level that level is the usual one" }
lasting_ratio = { default = 1.5, unit = "cost / median of the baseline before", about = "so far every one of those days has to stand above what was usual" }
min_history   = { default = 14, unit = "days with a bill", about = "two of every weekday; with fewer nothing is usual" }
min_excess    = { default = 50, unit = "BillingCurrency a day", about = "less is not worth a look" }
min_ratio     = { default = 2, unit = "cost / usual cost", about = "so far a day has to stand above the median of its weekday" }
min_sigmas    = { default = 6, unit = "robust standard deviations (1.4826 x median absolute deviation)", about = "so far a restless service has to stand above its usual cost" }
fee_kinds     = { default = ["accelerator.capacity_block", "commitment.fee", "commitment.unused", "support", "marketplace", "tax", "credit", "refund", "adjustment"], unit = "usage kinds", about = "billed by calendar or contract, not by use" }

[remedy.aws]
summary  = "Look at the usage types and resources of that day, and ask the owner what changed"
commands = ["aws ce get-cost-and-usage --time-period Start={first_day},End={day_after} --granularity DAILY --metrics AmortizedCost UsageQuantity --group-by Type=DIMENSION,Key=LINKED_ACCOUNT Type=DIMENSION,Key=USAGE_TYPE"]
risk     = "None in looking."
effort   = "minutes"

[remedy.gcp]
summary  = "Look at the SKUs and resources of that day in the billing export, and ask the owner what changed"
commands = ["gcloud logging read 'logName:cloudaudit.googleapis.com AND timestamp>={first_day} AND timestamp<{day_after}' --project {sub_account_id} --limit 50"]
risk     = "None in looking."
effort   = "minutes"

[remedy.azure]
summary  = "Look at the meters and resources of that day in cost analysis, and ask the owner what changed"
commands = ["az consumption usage list --subscription {sub_account_id} --start-date {first_day} --end-date {day_after} --include-meter-details --output table"]
risk     = "None in looking."
effort   = "minutes"
*/
with used as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        coalesce(ServiceName, '-') as ServiceName,
        case when usage_kind like 'accelerator.%' then coalesce(machine_type, accelerator_model) end as sku,
        coalesce(x_UsageType, x_SkuDescription, x_SkuMeterName) as usage,
        ResourceId,
        RegionId,
        day,
        EffectiveCost
    from charges
    where
        coalesce(ChargeCategory, 'Usage') = 'Usage'
        and ChargeClass is distinct from 'Correction'
        and coalesce(ChargeFrequency, 'Usage-Based') = 'Usage-Based'
        and not list_contains($fee_kinds, coalesce(usage_kind, ''))
        and coalesce(purchase_option, '') <> 'reserved_capacity'
        and day >= $window_start::date - $history_days::integer and day < $window_end
),

-- three ways to look at the same charges: a service, an accelerator type within it, the account as a whole
sliced as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        ServiceName,
        sku,
        usage,
        ResourceId,
        RegionId,
        day,
        EffectiveCost,
        unnest(case when sku is null then [1, 3] else [1, 2, 3] end) as rank
    from used
),

daily as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        rank,
        case when rank < 3 then ServiceName end as service,
        case when rank = 2 then sku end as sku,
        day,
        sum(EffectiveCost) as effective_cost
    from sliced
    group by all
),

-- a day counts as billed when the account has more on it than stray late rows
account_days as (
    select
        provider,
        SubAccountId,
        BillingCurrency,
        day
    from daily
    where rank = 3
    qualify effective_cost >= 0.1 * median(effective_cost) over (partition by provider, SubAccountId, BillingCurrency)
),

-- a slice in which something may have happened, and the number that stands for its six names from here on
series as (
    select
        row_number() over (order by daily.provider, daily.SubAccountId, daily.BillingCurrency, daily.rank, daily.service, daily.sku) as series_id,
        daily.provider,
        daily.SubAccountId,
        daily.BillingCurrency,
        daily.rank,
        daily.service,
        daily.sku,
        min(daily.day) as first_day
    from daily
    join account_days
        on
            daily.provider = account_days.provider
            and daily.SubAccountId is not distinct from account_days.SubAccountId
            and daily.BillingCurrency = account_days.BillingCurrency
            and daily.day = account_days.day
    group by daily.provider, daily.SubAccountId, daily.BillingCurrency, daily.rank, daily.service, daily.sku
    having max(daily.effective_cost) >= $min_excess
),

grid as (
    select
        series.series_id,
        account_days.day,
        coalesce(daily.effective_cost, 0) as effective_cost,
        row_number() over (partition by series.series_id order by account_days.day) as day_number
    from series
    join account_days
        on
            series.provider = account_days.provider
            and series.SubAccountId is not distinct from account_days.SubAccountId
            and series.BillingCurrency = account_days.BillingCurrency
            and series.first_day <= account_days.day
    left join daily
        on
            series.provider = daily.provider
            and series.SubAccountId is not distinct from daily.SubAccountId
            and series.BillingCurrency = daily.BillingCurrency
            and series.rank = daily.rank
            and series.service is not distinct from daily.service
            and series.sku is not distinct from daily.sku
            and account_days.day = daily.day
),

judged as (
    select
        this.series_id,
        this.day,
        this.effective_cost,
        count(*) filter (where past.day >= this.day - $baseline_days::integer) as history,
        median(past.effective_cost) filter (where past.day >= this.day - $baseline_days::integer) as usual,
        mad(past.effective_cost) filter (where past.day >= this.day - $baseline_days::integer) as deviation,
        min(past.effective_cost) filter (where past.day_number >= this.day_number - $lasting_days::integer) as recent_low,
        median(past.effective_cost) filter (where past.day_number >= this.day_number - $lasting_days::integer) as recent,
        mad(past.effective_cost) filter (where past.day_number >= this.day_number - $lasting_days::integer) as recent_deviation,
        median(past.effective_cost) filter (
            where past.day_number < this.day_number - $lasting_days::integer and past.day >= this.day - $baseline_days::integer
        ) as earlier,
        quantile_cont(past.effective_cost, 0.95) as high,
        count(*) filter (where dayofweek(past.day) = dayofweek(this.day) and past.day >= this.day - $baseline_days::integer) as same_weekdays,
        median(past.effective_cost) filter (
            where dayofweek(past.day) = dayofweek(this.day) and past.day >= this.day - $baseline_days::integer
        ) as usual_weekday,
        -- what is as dear around the same date of an earlier month, or at its end, comes every month
        coalesce(bool_or(
            past.effective_cost * 1.5 >= this.effective_cost
            and past.day < date_trunc('month', this.day)
            and (
                abs(dayofmonth(past.day) - dayofmonth(this.day)) <= 1
                or (date_diff('day', past.day, last_day(past.day)) <= 1 and date_diff('day', this.day, last_day(this.day)) <= 1)
            )
        ), false) as comes_every_month,
        -- the last and the first day bear what is billed by the month; without one before there is nothing to compare with
        bool_or(
            (this.day = last_day(this.day) or dayofmonth(this.day) = 1)
            and (this.day = last_day(this.day)) = (past.day = last_day(past.day))
            and (dayofmonth(this.day) = 1) = (dayofmonth(past.day) = 1)
        ) as has_fellow
    from grid as this
    join grid as past
        on
            this.series_id = past.series_id
            and this.day > past.day
            and this.day - $history_days::integer <= past.day
    where
        this.day >= $window_start
        and this.effective_cost >= $min_excess
    group by all
),

compared as (
    select
        series_id,
        day,
        effective_cost,
        high,
        coalesce(recent_low > 0 and recent_low >= earlier * $lasting_ratio and recent > usual_weekday, false) as has_risen,
        case when has_risen then recent_deviation else deviation end as usual_deviation,
        (case when has_risen then recent when same_weekdays >= 3 then usual_weekday else usual end)::decimal(30, 12) as usual_cost
    from judged
    where
        history >= $min_history
        and not comes_every_month
        and (has_fellow or (day <> last_day(day) and dayofmonth(day) <> 1))
),

-- a rise that goes on in steps is one rise
flagged as (
    select
        series_id,
        day,
        effective_cost,
        usual_cost,
        coalesce(day - lag(day) over (partition by series_id order by day) > $lasting_days, true)::integer as begins
    from compared
    where
        effective_cost - usual_cost >= $min_excess
        and effective_cost >= usual_cost * $min_ratio
        and effective_cost - usual_cost >= usual_deviation * 1.4826 * $min_sigmas
        and effective_cost >= high * 1.25  -- peaks that come now and then are usual too
),

numbered as (
    select
        series_id,
        day,
        effective_cost,
        usual_cost,
        sum(begins) over (partition by series_id order by day) as episode
    from flagged
),

peaks as (
    select
        series_id,
        min(day) as first_day,
        max(day) as last_day,
        count(*) as days,
        sum(effective_cost) as effective_cost,
        sum(usual_cost) as usual_cost,
        min_by(usual_cost, day) as former_cost
    from numbered
    group by series_id, episode
),

-- what came after tells an outlier from a new level
episodes as (
    select
        peaks.series_id,
        peaks.first_day,
        peaks.last_day,
        peaks.days,
        peaks.effective_cost,
        peaks.usual_cost,
        series.provider,
        series.SubAccountId,
        series.BillingCurrency,
        series.rank,
        series.service,
        series.sku,
        coalesce(
            count(grid.day) >= $lasting_days and median(grid.effective_cost) >= greatest(any_value(peaks.former_cost), 0.01) * $lasting_ratio, false
        ) as stays
    from peaks
    join series using (series_id)
    left join grid on peaks.series_id = grid.series_id and peaks.last_day < grid.day
    group by all
),

-- one cause is told once, where it shows best: the service before its accelerators, both before the account
told as (
    select
        episodes.series_id,
        episodes.provider,
        episodes.SubAccountId,
        episodes.BillingCurrency,
        episodes.rank,
        episodes.service,
        episodes.sku,
        episodes.first_day,
        episodes.last_day,
        episodes.days,
        episodes.stays,
        episodes.effective_cost,
        episodes.usual_cost
    from episodes
    anti join episodes as better
        on
            episodes.provider = better.provider
            and episodes.SubAccountId is not distinct from better.SubAccountId
            and episodes.BillingCurrency = better.BillingCurrency
            and episodes.rank > better.rank
            and (episodes.rank = 3 or episodes.service = better.service)
            and episodes.first_day <= better.last_day + $lasting_days::integer
            and episodes.last_day >= better.first_day - $lasting_days::integer
    where not (episodes.stays and episodes.rank = 2)  -- one more machine of a type, within a service that did not notice
),

usages as (
    select
        told.series_id,
        told.first_day,
        sliced.usage,
        sliced.ResourceId,
        case when count(distinct sliced.RegionId) = 1 then max(sliced.RegionId) end as RegionId,
        sum(sliced.EffectiveCost) as effective_cost
    from told
    join sliced
        on
            told.provider = sliced.provider
            and told.SubAccountId is not distinct from sliced.SubAccountId
            and told.BillingCurrency = sliced.BillingCurrency
            and told.rank = sliced.rank
            and (told.service is null or told.service = sliced.ServiceName)
            and (told.sku is null or told.sku = sliced.sku)
            and told.first_day = sliced.day
    group by told.series_id, told.first_day, sliced.usage, sliced.ResourceId
),

dearest as (
    select
        series_id,
        first_day,
        arg_max(usage, (effective_cost, usage)) as dearest_usage,
        arg_max(ResourceId, (effective_cost, ResourceId)) as dearest_resource,
        case when count(distinct RegionId) = 1 then max(RegionId) end as RegionId
    from usages
    group by series_id, first_day
)

select
    told.provider,
    null as ResourceId,
    told.SubAccountId,
    dearest.RegionId,
    told.BillingCurrency,
    told.service as ServiceName,
    concat_ws('/', coalesce(told.service, 'account'), told.sku, strftime(told.first_day, '%Y-%m-%d')) as subject,
    told.effective_cost,
    0 as committed_cost,
    0 as avoidable_cost,
    0 as avoidable_low,
    0 as avoidable_high,
    case when told.stays then 'low' else 'medium' end as confidence,
    format(
        '{} cost {:.2f} {}, against {:.2f} on a usual day of that kind',
        concat_ws(' ', coalesce(told.service, 'the account'), told.sku),
        told.effective_cost::double / told.days,
        case
            when told.last_day = told.first_day then 'on ' || strftime(told.first_day, '%Y-%m-%d')
            when date_diff('day', told.first_day, told.last_day) + 1 = told.days
                then 'on ' || strftime(told.first_day, '%Y-%m-%d') || ' to ' || strftime(told.last_day, '%Y-%m-%d') || ' a day'
            else format('on {} days from ', told.days) || strftime(told.first_day, '%Y-%m-%d') || ' to ' || strftime(told.last_day, '%Y-%m-%d') || ' a day'
        end,
        told.usual_cost::double / told.days
    )
    || case when told.stays then '; it has stayed high since, so it is a new level rather than an outlier' else '' end as reason,
    told.sku,
    strftime(told.first_day, '%Y-%m-%d') as first_day,
    strftime(told.last_day, '%Y-%m-%d') as last_day,
    strftime(told.last_day + 1, '%Y-%m-%d') as day_after,
    told.usual_cost,
    told.effective_cost - told.usual_cost as excess_cost,
    told.stays as stays_high,
    dearest.dearest_usage,
    dearest.dearest_resource
from told
left join dearest using (series_id, first_day)
order by excess_cost desc, subject asc
