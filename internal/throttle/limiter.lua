-- The limiter's functions, put before every script that judges or charges a plan: those of this package and those of
-- the agendas. It only defines locals; nothing here runs by itself. Each of them costs a little in every run of a
-- script, so what not every script needs stands in files of its own: mend.lua, undo.lua, usage.lua.
--
-- A plan limits one key. Its state:
--   rolling        sorted set   see log.lua, which stands before this
--   fixed_window   hash         s<per> begin of the window in µs, n<per> admissions in it
--   token_bucket   hash         s<per>/<max> a moment in µs, the same for all, n<per>/<max> debt of the bucket at that moment, see
--                               bucket_debt; o<per>/<max> what was charged beyond an empty bucket since it last had a
--                               token. Each limit has a bucket of its own: one that empties and refills as another limit
--                               does knows nothing of what this one still counts
--   both hashes                 m, a token and moment of the admission written last, g the moment a gap counts from, p the
--                               latest at which it counts from when that one is refunded, x<per>, or x<per>/<max>, the latest
--                               moment of what was admitted before the limit was known, 0 for none: a refund of that takes
--                               nothing out. Windows of rules that are not in force any more stay and are charged until
--                               they have passed, so that a rule that comes back finds them
-- The cap is always a rolling sorted set of its own.
--
-- Times are µs since the epoch on this server's clock. They are below 2^53, so a double holds them exactly; they are
-- written with %.0f, since Lua's own conversion keeps 14 digits only.

local ROLLING, FIXED_WINDOW, TOKEN_BUCKET = 0, 1, 2
local KIND_LIMIT, KIND_GAP, KIND_CAP, KIND_DORMANT = 0, 1, 2, 3

-- No admission is written further ahead than this (10 s in µs). What lies further ahead was written before the clock
-- was set back.
local FAR_AHEAD = 10000000

-- read_plan reads a plan from ARGV, from index i on: algorithm, number of rules, then max, per in µs and kind of each
-- (0 limit, 1 gap, 2 cap, 3 a limit that is not in force but may come back, which is only counted). Returns the plan and
-- the index after it. A plan remembers what it read of its state, so a script that charges must have one plan object for
-- each state key, not two.
local function read_plan(i, state_key, cap_key)
  local plan = {
    algorithm = tonumber(ARGV[i]), state = state_key, cap = cap_key, rules = {}, dormant = {},
    state_log = { max = 0, per = 0 }, cap_log = { max = 0, per = 0 },
  }
  local count = tonumber(ARGV[i + 1])
  i = i + 2
  for _ = 1, count do
    local max, per, kind = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local rule = { max = max, per = per, kind = kind, window = ARGV[i + 1] }
    if plan.algorithm == TOKEN_BUCKET then rule.window = rule.window .. '/' .. ARGV[i] end
    local among = kind == KIND_DORMANT and plan.dormant or plan.rules
    among[#among + 1] = rule
    local log = kind == KIND_CAP and plan.cap_log or plan.state_log
    if max > log.max then log.max = max end
    if per > log.per then log.per = per end
    i = i + 3
  end
  return plan, i
end

-- like_plan gives a plan with the rules of another, for other keys.
local function like_plan(plan, state_key, cap_key)
  local state, cap = plan.state_log, plan.cap_log
  return {
    algorithm = plan.algorithm, state = state_key, cap = cap_key, rules = plan.rules, dormant = plan.dormant,
    state_log = { max = state.max, per = state.per }, cap_log = { max = cap.max, per = cap.per },
  }
end

-- nobody stands for "no admission is planned ahead of this one"; see bound.
local nobody = { count = 0 }

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

-- newest_of gives the moment of the newest admission in a log, read once; false when it is empty.
local function newest_of(key, log)
  if log.newest == nil then log.newest = nth_newest(key, 1) or false end
  return log.newest
end

-- rolling_bound: the earliest moment that the rule allows after the admissions in the log and those planned ahead.
local function rolling_bound(key, log, rule, ahead)
  if rule.max <= ahead.count then return ahead.newest(rule.max) + rule.per end
  local n = rule.max - ahead.count
  local time = newest_of(key, log)
  if time and n > 1 then time = nth_newest(key, n) end
  if ahead.count == 0 and rule.max == log.max then log.nth = time or false end
  return time and time + rule.per
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

-- bound gives the earliest moment at which one rule allows the admission that follows those planned ahead, or nil.
-- ahead.count is how many are planned, ahead.newest(n) the time of the n-th newest of them.
local function bound(plan, rule, now, ahead)
  if rule.kind == KIND_CAP then return rolling_bound(plan.cap, plan.cap_log, rule, ahead) end
  if plan.algorithm == ROLLING then return rolling_bound(plan.state, plan.state_log, rule, ahead) end
  if rule.kind == KIND_GAP then return gap_bound(plan, rule, ahead) end
  if plan.algorithm == FIXED_WINDOW then return window_bound(plan, rule, now, ahead) end
  return bucket_bound(plan, rule, now, ahead)
end

-- decide gives the earliest moment, not before now, that every rule allows, and the number of the rule that decides
-- it (from 1; 0 when none does). The same recurrence as Next in Go.
local function decide(plan, now, ahead)
  local at, why = now, 0
  for r, rule in ipairs(plan.rules) do
    local free = bound(plan, rule, now, ahead)
    if free and free > at then at, why = free, r end
  end
  return at, why
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

-- charge writes an admission at a moment into the plan's state and the cap's log.
local function charge(plan, now, at, token)
  if plan.state_log.max > 0 then
    if plan.algorithm == ROLLING then
      charge_log(plan.state, plan.state_log, now, at, token)
    else
      charge_counters(plan, now, at, token)
    end
  end
  if plan.cap_log.max > 0 then charge_log(plan.cap, plan.cap_log, now, at, token) end
end

