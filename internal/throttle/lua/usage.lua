-- rolling_usage returns how many admissions a rule's window holds, and when the oldest of them leaves it (0: none is in
-- it).
local function rolling_usage(plan, key, rule, now)
  local from, ends = '(' .. digits(now - rule.per), nil
  for _, begins in ipairs(rule.period and plan.periods and plan.periods[rule.period] or {}) do
    if begins <= now then from = digits(begins) else ends = ends or begins end
  end
  local used = redis.call('ZCOUNT', key, from, '+inf')
  if used == 0 then return 0, 0 end
  local oldest = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return used, ends or tonumber(oldest[2]) + rule.per
end

local function counter_usage(plan, rule, now)
  local c = counting().of(plan)
  if rule.kind ~= KIND_GAP then return c.algorithm.usage(c[rule], rule, now) end
  if not c.gap or now >= c.gap + rule.per then return 0, 0 end
  return 1, c.gap + rule.per
end

-- usage returns how many admissions count under one rule now, and when the next of them stops counting (0: none
-- counts).
local function usage(plan, rule, now)
  if rule.kind == KIND_CAP then return rolling_usage(plan, plan.cap, rule, now) end
  if rule.named then return rolling_usage(plan, plan.named[rule.named].key, rule, now) end
  if plan.algorithm == ROLLING then return rolling_usage(plan, plan.state, rule, now) end
  return counter_usage(plan, rule, now)
end

