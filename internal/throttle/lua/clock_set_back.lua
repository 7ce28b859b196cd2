-- repair moves what was written before the clock was set back to the furthest slot that may be granted now. So the
-- limits hold, and nobody waits longer than a window and that.
local function repair(plan, now)
  local far, latest = now + FAR_AHEAD, now + HORIZON

  local function repair_log(key, log)
    local tokens = redis.call('ZRANGEBYSCORE', key, '(' .. digits(far), '+inf')
    if #tokens == 0 then return end
    for _, token in ipairs(tokens) do redis.call('ZADD', key, digits(latest), token) end
    local _, per = depth_of(key)
    redis.call('PEXPIRE', key, digits(math.ceil((FAR_AHEAD + math.max(per, log.per)) / 1000)))
    log.newest, log.nth = nil, nil
  end

  local function repair_counters()
    local c = counting().of(plan)
    local fields, per = {}, plan.state_log.per
    local function set(name)
      fields[#fields + 1] = name
      fields[#fields + 1] = digits(latest)
    end
    if c.gap and c.gap > far then
      c.gap = latest
      set('g')
    end
    if c.before > far then
      c.before = latest
      set('p')
    end
    for _, rule in ipairs(c.limits) do
      per = math.max(per, rule.per)
      if c[rule].from and c[rule].from > far then
        c[rule].from = latest
        if c[rule].since then set('s' .. rule.window) end
      end
      if c[rule].since and c[rule].since > far then
        c[rule].since = latest
        set('x' .. rule.window)
      end
    end
    if #fields == 0 then return end
    redis.call('HSET', plan.state, unpack(fields))
    redis.call('PEXPIRE', plan.state, digits(math.ceil((FAR_AHEAD + per) / 1000)))
  end

  if plan.state_log.max > 0 then
    if plan.algorithm == ROLLING then repair_log(plan.state, plan.state_log) else repair_counters() end
  end
  if plan.cap_log.max > 0 then repair_log(plan.cap, plan.cap_log) end
  for _, cap in ipairs(plan.named) do repair_log(cap.key, cap.log) end
end

-- decide_now is decide for an admission now. A wait that no rule can cause means that the
-- clock was set back; then it repairs the state first. Closed intervals do not hold for what is exempt.
local function decide_now(plan, now, exempt)
  local at, why, latest = free(plan, now)
  if why > 0 and at - now > plan.rules[why].per + FAR_AHEAD then
    repair(plan, now)
    at, why, latest = free(plan, now)
  end
  if exempt then return at, why, latest end
  return opened(plan, at, why, latest)
end

