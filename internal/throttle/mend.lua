-- mend moves what was written before the clock was set back to now, as if it had just happened: the limits hold, and
-- nobody waits longer than a window.
local function mend(plan, now)
  local far = now + FAR_AHEAD

  local function mend_log(key, per)
    local tokens = redis.call('ZRANGEBYSCORE', key, '(' .. digits(far), '+inf')
    if #tokens == 0 then return end
    for _, token in ipairs(tokens) do redis.call('ZADD', key, digits(now), token) end
    redis.call('PEXPIRE', key, digits(math.ceil((FAR_AHEAD + per) / 1000)))
  end

  local function mend_counters()
    local c = counters(plan)
    local fields = {}
    for _, rule in ipairs(plan.rules) do
      if rule.kind == KIND_GAP and c.gap and c.gap > far then
        c.gap = now
        fields[#fields + 1] = 'g'
        fields[#fields + 1] = digits(now)
      elseif rule.kind == KIND_LIMIT and c[rule].from and c[rule].from > far then
        c[rule].from = now
        fields[#fields + 1] = 's' .. rule.window
        fields[#fields + 1] = digits(now)
      end
    end
    if #fields == 0 then return end
    redis.call('HSET', plan.state, unpack(fields))
    redis.call('PEXPIRE', plan.state, digits(math.ceil((FAR_AHEAD + plan.state_per) / 1000)))
  end

  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then mend_log(plan.state, plan.state_per) else mend_counters() end
  end
  if plan.has_cap then mend_log(plan.cap, plan.cap_per) end
end

-- judge is decide for an admission now, with nothing planned ahead. A wait that no rule can cause means that the clock
-- was set back; then it mends first.
local function judge(plan, now)
  local at, why = decide(plan, now, nobody)
  if why > 0 and at - now > plan.rules[why].per + FAR_AHEAD then
    mend(plan, now)
    at, why = decide(plan, now, nobody)
  end
  return at, why
end

