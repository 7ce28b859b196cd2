-- What the algorithms with counters have in common: a hash for each plan, see plan.lua. Most deployments have only
-- rolling limits, so this file is the body of a function, make_counting, that runs when the first hash is read. Before
-- it stands `algorithms`: by an algorithm's letter, a function that returns its file in algorithms/, which is:
--
--   own                        true when each limit has a counter of its own; else those over the same window share it
--   bound(c, rule)             the earliest moment that a limit allows, nil for any
--   charge(c, rule, at)        counts an admission
--   refund(c, rule, at)        takes an admission out; false when it no longer counts
--   usage(c, rule, now)        how many admissions count now, and when the next of them stops counting (0: none counts)
--   passed(c, rule, at)        whether nothing counts any more
--
-- c is the limit's counter, {from, load, owed, since}. What from, load and owed mean is up to the algorithm; `since` is
-- the field x of the hash, nil for what was never charged.

-- MAX_WINDOWS bounds how many windows of rules that are no longer in force a hash remembers.
local MAX_WINDOWS = 64

local made = {} -- the algorithms, each made once in a run

-- inherit begins a counter that was never charged with what the emptiest bucket of the same window lacks. It owes what
-- exceeds its own size.
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

-- counters returns what a plan's hash holds, read once: {algorithm, token, at, gap, before, limits = rules, past,
-- [rule] = the counter of each}. The limits are those of the plan, the dormant ones, and those of other plans; `past`
-- is true when there are any of these.
local function counters(plan)
  if plan.counters then return plan.counters end
  local algorithm = made[plan.algorithm] or algorithms[plan.algorithm]()
  made[plan.algorithm] = algorithm
  local hash, fields = redis.call('HGETALL', plan.state), {}
  for i = 1, #hash, 2 do fields[hash[i]] = hash[i + 1] end
  local found = {
    algorithm = algorithm, token = fields.m, at = tonumber(fields.a or nil), gap = tonumber(fields.g or nil),
    before = tonumber(fields.p or 0), limits = {},
  }
  local opened = {}
  local function open(rule)
    local window = rule.window
    if not window then
      window = ARGV[rule.arg + 1]
      if algorithm.own then window = window .. '/' .. ARGV[rule.arg] end
      rule.window = window
    end
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
      found.past = true
    end
  end
  if algorithm.own then
    for _, rule in ipairs(found.limits) do
      if not found[rule].since then inherit(found, rule) end
    end
  end
  plan.counters = found
  return found
end

-- bound is exact for a gap under every algorithm.
local function bound(plan, rule)
  local c = counters(plan)
  if rule.kind ~= KIND_GAP then return c.algorithm.bound(c[rule], rule) end
  return c.gap and c.gap + rule.per
end

-- forget removes the windows of past rules that have passed, or of all past rules when there are too many.
local function forget(plan, c, at)
  if not c.past then return end
  local kept, fields = {}, {}
  for _, rule in ipairs(c.limits) do
    if rule.past and (#c.limits > MAX_WINDOWS or c.algorithm.passed(c[rule], rule, at)) then
      for _, field in ipairs({ 's', 'n', 'o', 'x' }) do fields[#fields + 1] = field .. rule.window end
    else
      kept[#kept + 1] = rule
    end
  end
  if #fields > 0 then redis.call('HDEL', plan.state, unpack(fields)) end
  c.limits = kept
end

local function charge(plan, now, at, token)
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
    c.algorithm.charge(counter, rule, at)
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

return { of = counters, bound = bound, charge = charge }
