-- rolling_usage: how many admissions a rule's window holds, and when the oldest of them leaves it (0: none is in it).
local function rolling_usage(key, rule, now)
  local from = '(' .. digits(now - rule.per)
  local used = redis.call('ZCOUNT', key, from, '+inf')
  if used == 0 then return 0, 0 end
  local oldest = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return used, tonumber(oldest[2]) + rule.per
end

local function counter_usage(plan, rule, now)
  local c = counting().of(plan)[rule]
  if plan.algorithm == TOKEN_BUCKET then
    local debt = counting().bucket_debt(c, rule, now)
    if debt == 0 then return 0, 0 end
    local used = math.ceil(debt / rule.per)
    return used, now + math.ceil((debt - (used - 1) * rule.per) / rule.max)
  end
  if not c.from or now >= c.from + rule.per or c.load == 0 then return 0, 0 end
  return c.load, c.from + rule.per
end

local function gap_usage(plan, rule, now)
  local last = counting().of(plan).gap
  if not last or now >= last + rule.per then return 0, 0 end
  return 1, last + rule.per
end

-- usage of one rule: admissions that count against it now, and when the next of them stops counting (0: none counts).
local function usage(plan, rule, now)
  if rule.kind == KIND_CAP then return rolling_usage(plan.cap, rule, now) end
  if plan.algorithm == ROLLING then return rolling_usage(plan.state, rule, now) end
  if rule.kind == KIND_GAP then return gap_usage(plan, rule, now) end
  return counter_usage(plan, rule, now)
end

