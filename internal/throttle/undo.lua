-- refund_counter takes one admission out of a window or a bucket; false when it does not count there any more. A bucket
-- gets back no more than what the time since then cannot have refilled anyway: without the admission it might have been
-- full meanwhile, and what flows into a full bucket is lost.
local function refund_counter(plan, c, rule, at)
  if not c.from or c.load <= 0 then return false end
  if plan.algorithm == FIXED_WINDOW then
    if at < c.from or at >= c.from + rule.per then return false end
    c.load = c.load - 1
    return true
  end
  local back = rule.per - math.max(0, c.from - at) * rule.max
  if back <= 0 then return false end
  c.load = math.max(0, c.load - back)
  return true
end

local function refund_counters(plan, at, token)
  local c = counters(plan)
  local fields = {}
  for _, rule in ipairs(plan.rules) do
    if rule.kind == KIND_GAP then
      -- The admission before this one is not known, but it lies a gap before it or more.
      if c.gap == at then
        c.gap = at - rule.per
        fields[#fields + 1] = 'g'
        fields[#fields + 1] = digits(c.gap)
      end
    elseif rule.kind == KIND_LIMIT and refund_counter(plan, c[rule], rule, at) then
      fields[#fields + 1] = 'n' .. rule.window
      fields[#fields + 1] = digits(c[rule].load)
    end
  end
  if #fields > 0 then redis.call('HSET', plan.state, unpack(fields)) end
  if c.token == token then
    c.token, c.at = false, nil
    redis.call('HDEL', plan.state, 'm', 'a')
  end
  return #fields > 0
end

-- refund takes an admission back that surely had no effect, and tells whether one was taken out. A log knows its
-- entries by their tokens; counters do not, and take the caller's word that this one was made at `at`, once.
local function refund(plan, at, token)
  local found = false
  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then
      found = redis.call('ZREM', plan.state, token) == 1
    else
      found = refund_counters(plan, at, token)
    end
  end
  if plan.has_cap and redis.call('ZREM', plan.cap, token) == 1 then found = true end
  return found
end

