-- refund_counter takes one admission out of a limit's counter. It returns false when that no longer counts there.
local function refund_counter(algorithm, c, rule, at)
  if not c.since or at <= c.since or c.load <= 0 then return false end
  return algorithm.refund(c, rule, at)
end

local function refund_counters(plan, at, token)
  local c = counting().of(plan)
  local fields, found = {}, false
  local function set(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = digits(value)
  end
  -- Of the admissions before the last one, only the latest moment is known. It stays, so a second refund moves nothing.
  if c.gap == at and c.before < at then
    c.gap = c.before
    set('g', c.gap)
    for _, rule in ipairs(plan.rules) do found = found or rule.kind == KIND_GAP end
  end
  for _, rule in ipairs(c.limits) do
    local owed = c[rule].owed
    if refund_counter(c.algorithm, c[rule], rule, at) then
      found = true
      set('n' .. rule.window, c[rule].load)
      if owed ~= c[rule].owed then set('o' .. rule.window, c[rule].owed) end
    end
  end
  if #fields > 0 then redis.call('HSET', plan.state, unpack(fields)) end
  if c.token == token then
    c.token, c.at = nil, nil
    redis.call('HDEL', plan.state, 'm', 'a')
  end
  plan.counters = nil -- a bucket that was never charged begins with what the others lack now
  return found
end

-- refund_log takes an admission out of a log. When that leaves fewer than the largest max, and others were cut off, the
-- newest of those takes its place.
local function refund_log(key, token)
  if redis.call('ZREM', key, token) == 0 then return false end
  local cut = redis.call('ZSCORE', key, '/')
  if cut and redis.call('ZCARD', key) - 2 < depth_of(key) then redis.call('ZADD', key, cut, '/-' .. token) end
  return true
end

-- refund takes back an admission that surely had no effect, and reports whether one was taken out. A log knows its
-- entries by their tokens. Counters do not: they rely on the caller that this one was made at `at`, and is refunded
-- once.
local function refund(plan, at, token)
  local found = false
  if plan.state_log.max > 0 then
    if plan.algorithm == ROLLING then
      found = refund_log(plan.state, token)
    else
      found = refund_counters(plan, at, token)
    end
  end
  if plan.cap_log.max > 0 and refund_log(plan.cap, token) then found = true end
  for _, cap in ipairs(plan.named) do
    if refund_log(cap.key, token) then found = true end
    cap.log.newest, cap.log.nth = nil, nil
  end
  plan.state_log.newest, plan.state_log.nth, plan.cap_log.newest, plan.cap_log.nth = nil, nil, nil, nil
  return found
end

