-- The limiter's functions: the earliest moment that a plan allows, and the charge of an admission. plan.lua and
-- make_counting, see counters.lua, stand before them.

-- counting returns the functions for plans with counters, made once in a run.
local made
local function counting()
  made = made or make_counting()
  return made
end

-- newest_of returns the moment of the newest admission in a log, read once; false when the log is empty.
local function newest_of(key, log)
  if log.newest == nil then log.newest = nth_newest(key, 1) or false end
  return log.newest
end

-- granted_ahead returns the moment of the newest admission in a log that was granted ahead, or 0. What lies further ahead
-- than HORIZON was written before the clock was set back.
local function granted_ahead(key, log, now)
  if log.max == 0 then return 0 end
  local at, far = newest_of(key, log), now + HORIZON
  if at and at > far then
    at = tonumber(redis.call('ZREVRANGEBYSCORE', key, digits(far), '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2])
  end
  return at and at > now and at or 0
end

-- bound returns the earliest moment at which one rule allows an admission, or nil.
local bound
do
  -- frees returns when an admission at a moment no longer counts under a rule: when its window or its period has passed.
  -- Beyond the last boundary that is known it is as late as that can be.
  local function frees(plan, rule, at)
    local boundaries = rule.period and plan.periods and plan.periods[rule.period]
    for _, begins in ipairs(boundaries or {}) do
      if begins > at then return begins end
    end
    return at + rule.per
  end

  -- rolling_bound returns the earliest moment that a rule allows one of a priority after the admissions in the log. Under
  -- one with a reserve that is not before what was granted ahead.
  local function rolling_bound(plan, key, log, rule, now)
    local most = rule.seen and rule.seen[plan.priority] or rule.max
    local time = newest_of(key, log)
    if time and most > 1 then time = nth_newest(key, most) end
    if most == log.max then log.nth = time or false end
    local from = time and frees(plan, rule, time)
    return rule.reserves and math.max(from or 0, granted_ahead(key, log, now)) or from
  end

  function bound(plan, rule, now)
    if rule.kind == KIND_CAP then return rolling_bound(plan, plan.cap, plan.cap_log, rule, now) end
    if rule.named then
      local cap = plan.named[rule.named]
      return counts_in(plan, cap) and rolling_bound(plan, cap.key, cap.log, rule, now) or nil
    end
    if plan.algorithm == ROLLING then return rolling_bound(plan, plan.state, plan.state_log, rule, now) end
    return counting().bound(plan, rule)
  end
end

-- free returns the earliest moment, not before now, that every rule allows; the number of the rule that decides it (from
-- 1; 0 when none does); and the earliest moment that every rule allows, which may have passed (0: no rule bounds it).
local function free(plan, now)
  local at, why, latest = now, 0, 0
  local rules = plan.rules
  for r = 1, #rules do
    local from = bound(plan, rules[r], now)
    if from and from > latest then
      latest = from
      if from > at then at, why = from, r end
    end
  end
  return at, why, latest
end

local bypass_at
do
  local function newest_or_0(key, log) return log.max > 0 and newest_of(key, log) or 0 end

  -- bypass_at returns when one goes that no rule holds: now, or, when some rule is full, right after what was granted
  -- ahead, and by HORIZON where the clock was set back since. See Bypass in Go.
  function bypass_at(plan, now)
    if free(plan, now) <= now then return now end
    local newest = newest_or_0(plan.cap, plan.cap_log)
    if plan.algorithm == ROLLING then
      newest = math.max(newest, newest_or_0(plan.state, plan.state_log))
    elseif plan.state_log.max > 0 then
      newest = math.max(newest, counting().of(plan).gap or 0)
    end
    for _, cap in ipairs(plan.named) do
      if counts_in(plan, cap) then newest = math.max(newest, newest_or_0(cap.key, cap.log)) end
    end
    return newest > now and math.min(newest + 1, now + HORIZON) or now
  end
end

-- spread_for has a plan's closed intervals end later, by a user's part of the spread; see Plan.For in Go.
local function spread_for(plan, user)
  if #plan.closed == 0 or plan.spread == 0 then return end
  plan.later = math.floor(tonumber(string.sub(redis.sha1hex(user), 1, 4), 16) * plan.spread / 65536)
end

-- open returns the earliest moment, not before at, that is in none of the plan's closed intervals. What expires at a
-- moment (or nil) at which the interval is over, and not yet for its user, may go a minute before; see Plan.Open in Go.
local function open(plan, at, expires)
  local later = plan.later or 0
  for _, closed in ipairs(plan.closed) do
    if at < closed.from then break end
    local over = closed.over + later
    if expires and closed.over < expires and expires <= over then
      over = math.max(closed.over, expires - 60000000)
    end
    if at < over then at = over end
  end
  return at
end

-- opened returns what free returned, moved out of the closed intervals for what expires at plan.expires. When these
-- decide, the number is -1 - that of the rule.
local function opened(plan, at, why, latest)
  if #plan.closed == 0 then return at, why, latest end
  local opens = open(plan, at, plan.expires)
  if opens > at then why = -1 - why end
  return opens, why, open(plan, latest, plan.expires)
end

-- decide returns the earliest moment, not before now, that is open and that every rule allows; what decides it, see
-- opened; and the earliest such moment, which may have passed (0: nothing bounds it). It is the same recurrence as Next
-- and Bound in Go.
local function decide(plan, now) return opened(plan, free(plan, now)) end

-- charge writes an admission at a moment into the plan's state and the logs of its caps.
local function charge(plan, now, at, token)
  if plan.state_log.max > 0 then
    if plan.algorithm == ROLLING then
      charge_log(plan.state, plan.state_log, now, at, token)
    else
      counting().charge(plan, now, at, token)
    end
  end
  if plan.cap_log.max > 0 then charge_log(plan.cap, plan.cap_log, now, at, token) end
  for n = 1, #plan.named do
    local cap = plan.named[n]
    if counts_in(plan, cap) then charge_log(cap.key, cap.log, now, at, token) end
  end
end

