-- The counters of fixed windows and token buckets: a hash for each plan, see plan.lua. Most deployments have rolling limits
-- only, so these functions are made when the first hash is looked at.

-- make_counting makes them, and gives those that others call.
local function make_counting()
  -- MAX_WINDOWS bounds how many windows of rules that are no longer in force a hash remembers.
  local MAX_WINDOWS = 64

  -- inherit begins a bucket that was never charged with what the emptiest of the same window lacks. What is more than its
  -- own size it owes.
  local function inherit(found, rule)
    local c, most = found[rule], -1
    for _, other in ipairs(found.limits) do
      local o = found[other]
      if o.since and other.per == rule.per and o.load + o.owed > most then most, c.from = o.load + o.owed, o.from end
    end
    if most < 0 then return end
    c.load = math.min(most, rule.max * rule.per)
    c.owed = most - c.load
  end

  -- counters gives what a plan's hash holds, read once: {token, at, gap, before, limits = rules, [rule] = {from, load, owed, since}
  -- of each}. For a fixed window `from` is its begin (nil: none yet) and `load` the admissions in it, for a bucket a moment
  -- and its debt; `since` is x, nil for what was never charged. The limits are those of the plan, those dormant, and those of
  -- other plans (with `past`).
  local function counters(plan)
    if plan.counters then return plan.counters end
    local hash, fields = redis.call('HGETALL', plan.state), {}
    for i = 1, #hash, 2 do fields[hash[i]] = hash[i + 1] end
    local found = { token = fields.m, at = tonumber(fields.a or nil), gap = tonumber(fields.g or nil),
      before = tonumber(fields.p or 0), limits = {} }
    local opened = {}
    local function open(rule)
      local window = rule.window
      if opened[window] then return end
      opened[window] = true
      found[rule] = { from = tonumber(fields['s' .. window] or nil), load = tonumber(fields['n' .. window] or 0),
        owed = tonumber(fields['o' .. window] or 0), since = tonumber(fields['x' .. window] or nil) }
      found.limits[#found.limits + 1] = rule
    end
    for _, rule in ipairs(plan.rules) do
      if rule.kind == KIND_LIMIT then open(rule) end
    end
    for _, rule in ipairs(plan.dormant) do open(rule) end
    for name, value in pairs(fields) do
      if string.sub(name, 1, 1) == 'x' and not opened[string.sub(name, 2)] then
        local per, max = string.match(name, '^x(%d+)/?(%d*)$')
        max = tonumber(max) or tonumber(value) -- which it was while limits shared a bucket
        open({ max = max, per = tonumber(per), window = string.sub(name, 2), kind = KIND_DORMANT, past = true })
      end
    end
    if plan.algorithm == TOKEN_BUCKET then
      for _, rule in ipairs(found.limits) do
        if not found[rule].since then inherit(found, rule) end
      end
    end
    plan.counters = found
    return found
  end

  local function gap_bound(plan, rule, ahead)
    if ahead.count > 0 then return ahead.newest(1) + rule.per end
    local last = counters(plan).gap
    return last and last + rule.per
  end

  -- window_bound is exact when nothing is planned ahead. Otherwise it takes the coming windows as filled without a break,
  -- and never earlier than a rolling window would allow after those planned: exact for a backlog, at a constant price.
  local function window_bound(plan, rule, now, ahead)
    local c = counters(plan)[rule]
    local start, used = c.from, c.load
    if not start or now >= start + rule.per then start, used = now, 0 end
    local beyond = ahead.count - math.max(0, rule.max - used)
    if beyond < 0 then return start end
    local free = start + (1 + math.floor(beyond / rule.max)) * rule.per
    if ahead.count >= rule.max then free = math.max(free, ahead.newest(rule.max) + rule.per) end
    return free
  end

  -- bucket_debt is what a bucket lacks to be full. A token is `per` units and each µs brings `max` of them, so that the
  -- debt is a whole number and nothing is rounded away (while max·per is below 2^53).
  local function bucket_debt(c, rule, at)
    if not c.from then return 0 end
    return math.max(0, c.load - (at - c.from) * rule.max)
  end

  local function bucket_bound(plan, rule, now, ahead)
    local c = counters(plan)[rule]
    local from, load = c.from, c.load
    if not from or ahead.count > 0 and from < now then from, load = now, bucket_debt(c, rule, now) end
    local lacking = load + (ahead.count + 1) * rule.per - rule.max * rule.per
    local free = from + math.ceil(lacking / rule.max)
    if ahead.count >= rule.max then
      free = math.max(free, ahead.newest(rule.max) + math.ceil(rule.per / rule.max))
    end
    return free
  end

  local function charge_counter(plan, c, rule, at)
    if plan.algorithm == TOKEN_BUCKET then
      local full = rule.max * rule.per
      -- One that comes after a grant for a later moment counts at that moment: turned back, the bucket could overflow and
      -- be less empty at that moment than it was.
      at = math.max(at, c.from or at)
      c.load = bucket_debt(c, rule, at) + rule.per
      c.from = at
      if c.load > full then
        -- Nobody judged it. A refund gives back first what the bucket could not give.
        c.owed = c.owed + c.load - full
        c.load = full
      else
        c.owed = 0
      end
    elseif not c.from or at >= c.from + rule.per then
      c.from, c.load = at, 1
    else
      c.load = c.load + 1
    end
  end

  -- passed tells whether nothing counts in a window any more, or a bucket is full.
  local function passed(plan, c, rule, at)
    if plan.algorithm == TOKEN_BUCKET then return bucket_debt(c, rule, at) == 0 end
    return not c.from or at >= c.from + rule.per
  end

  -- forget takes the windows of past rules out that have passed, or all when there are too many.
  local function forget(plan, c, at)
    local kept, fields = {}, {}
    for _, rule in ipairs(c.limits) do
      if rule.past and (#c.limits > MAX_WINDOWS or passed(plan, c[rule], rule, at)) then
        for _, field in ipairs({ 's', 'n', 'o', 'x' }) do fields[#fields + 1] = field .. rule.window end
      else
        kept[#kept + 1] = rule
      end
    end
    if #fields > 0 then redis.call('HDEL', plan.state, unpack(fields)) end
    c.limits = kept
  end

  local function charge_counters(plan, now, at, token)
    local c = counters(plan)
    forget(plan, c, at)
    c.token, c.at = token, at
    local since = c.gap or 0
    if c.gap then c.before = math.max(c.before, math.min(c.gap, at)) end
    c.gap = math.max(c.gap or at, at)
    local fields = { 'm', token, 'a', digits(at), 'g', digits(c.gap), 'p', digits(c.before) }
    local last = c.gap + plan.state_log.per
    for _, rule in ipairs(c.limits) do
      local counter, owed = c[rule], c[rule].since and c[rule].owed or 0
      charge_counter(plan, counter, rule, at)
      last = math.max(last, counter.from + math.max(rule.per, plan.state_log.per))
      local changed = { s = counter.from, n = counter.load }
      if owed ~= counter.owed then changed.o = counter.owed end
      if not counter.since then
        counter.since = since
        changed.x = since
      end
      for name, value in pairs(changed) do
        fields[#fields + 1] = name .. rule.window
        fields[#fields + 1] = digits(value)
      end
    end
    redis.call('HSET', plan.state, unpack(fields))
    redis.call('PEXPIRE', plan.state, digits(math.ceil((last - now) / 1000) + SLACK))
  end

  return {
    of = counters, gap_bound = gap_bound, window_bound = window_bound, bucket_bound = bucket_bound, bucket_debt = bucket_debt,
    charge = charge_counters,
  }
end

-- counting gives them, made once in a run.
local made
local function counting()
  made = made or make_counting()
  return made
end

