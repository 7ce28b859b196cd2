-- The limiter's functions: the earliest moment that a plan allows, and the charge of an admission. plan.lua and
-- make_counting, see counters.lua, stand before them.

-- counting returns the functions for plans with counters, made once in a run.
local made
local function counting()
  made = made or make_counting()
  return made
end

-- nothing_ahead stands for "no admission is planned ahead of this one"; see bound.
local nothing_ahead = { count = 0 }

-- newest_of returns the moment of the newest admission in a log, read once; false when the log is empty.
local function newest_of(key, log)
  if log.newest == nil then log.newest = nth_newest(key, 1) or false end
  return log.newest
end

-- rolling_bound returns the earliest moment that a rule allows after the admissions in the log and those planned ahead.
local function rolling_bound(key, log, rule, ahead)
  if rule.max <= ahead.count then return ahead.newest(rule.max) + rule.per end
  local n = rule.max - ahead.count
  local time = newest_of(key, log)
  if time and n > 1 then time = nth_newest(key, n) end
  if ahead.count == 0 and rule.max == log.max then log.nth = time or false end
  return time and time + rule.per
end

-- bound returns the earliest moment at which one rule allows the admission that follows those planned ahead, or nil.
-- ahead.count is how many are planned, ahead.newest(n) the time of the n-th newest of them.
local function bound(plan, rule, now, ahead)
  if rule.kind == KIND_CAP then return rolling_bound(plan.cap, plan.cap_log, rule, ahead) end
  if plan.algorithm == ROLLING then return rolling_bound(plan.state, plan.state_log, rule, ahead) end
  return counting().bound(plan, rule, now, ahead)
end

-- decide returns the earliest moment, not before now, that every rule allows; the number of the rule that decides it
-- (from 1; 0 when none does); and the earliest moment that every rule allows, which may have passed (0: no rule bounds
-- it). It is the same recurrence as Next and Bound in Go.
local function decide(plan, now, ahead)
  local at, why, latest = now, 0, 0
  for r, rule in ipairs(plan.rules) do
    local free = bound(plan, rule, now, ahead)
    if free and free > latest then
      latest = free
      if free > at then at, why = free, r end
    end
  end
  return at, why, latest
end

-- charge writes an admission at a moment into the plan's state and the cap's log.
local function charge(plan, now, at, token)
  if plan.state_log.max > 0 then
    if plan.algorithm == ROLLING then
      charge_log(plan.state, plan.state_log, now, at, token)
    else
      counting().charge(plan, now, at, token)
    end
  end
  if plan.cap_log.max > 0 then charge_log(plan.cap, plan.cap_log, now, at, token) end
end

