-- The limiter's functions, put before every script that judges or charges a plan: those of this package and those of
-- the mailboxes. It only defines locals; nothing here runs by itself. Each of them costs a little in every run of a
-- script, so what not every script needs stands in files of its own: mend.lua, undo.lua, usage.lua.
--
-- A plan limits one key. Its state:
--   rolling        sorted set   member = token of the admission, score = its time in µs
--   fixed_window   hash         s<per> begin of the window in µs, n<per> admissions in it
--   token_bucket   hash         s<per> a moment in µs, n<per> debt of the bucket at that moment, see bucket_debt
--   both hashes                 m, a token and moment of the admission written last, g the moment a gap counts from
-- The cap is always a rolling sorted set of its own.
--
-- Times are µs since the epoch on this server's clock. They are below 2^53, so a double holds them exactly; they are
-- written with %.0f, since Lua's own conversion keeps 14 digits only.

local redis, KEYS, ARGV = redis, KEYS, ARGV

local ROLLING, FIXED_WINDOW, TOKEN_BUCKET = 0, 1, 2
local KIND_LIMIT, KIND_GAP, KIND_CAP = 0, 1, 2

-- No admission is written further ahead than this (10 s in µs). What lies further ahead was written before the clock
-- was set back.
local FAR_AHEAD = 10000000

-- Keys live this much longer (in ms) than they are needed: an engine may remove them early (the embedded one by half a
-- second), and a window forgotten early is a limit broken.
local SLACK = 1000

local function now_micros()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function digits(n)
  return string.format('%.0f', n)
end

-- read_plan reads a plan from ARGV, from index i on: algorithm, number of rules, then max, per in µs and kind of each
-- (0 limit, 1 gap, 2 cap). Returns the plan and the index after it. A plan remembers what it read of a hash, so a
-- script that charges must have one plan object for each state key, not two.
local function read_plan(i, state_key, cap_key)
  local plan = {
    algorithm = tonumber(ARGV[i]), state = state_key, cap = cap_key, rules = {},
    has_cap = false, state_max = 0, state_per = 0, cap_max = 0, cap_per = 0,
  }
  local count = tonumber(ARGV[i + 1])
  i = i + 2
  for r = 1, count do
    local max, per, kind = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local rule = { max = max, per = per, kind = kind, window = ARGV[i + 1] }
    plan.rules[r] = rule
    if kind == KIND_CAP then
      plan.has_cap = true
      if max > plan.cap_max then plan.cap_max, plan.cap_deepest = max, rule end
      if per > plan.cap_per then plan.cap_per = per end
    else
      if max > plan.state_max then plan.state_max, plan.state_deepest = max, rule end
      if per > plan.state_per then plan.state_per = per end
    end
    i = i + 3
  end
  return plan, i
end

-- like_plan gives a plan with the rules of another, for other keys.
local function like_plan(plan, state_key, cap_key)
  return {
    algorithm = plan.algorithm, state = state_key, cap = cap_key, rules = plan.rules, has_cap = plan.has_cap,
    state_max = plan.state_max, state_per = plan.state_per, state_deepest = plan.state_deepest,
    cap_max = plan.cap_max, cap_per = plan.cap_per, cap_deepest = plan.cap_deepest,
  }
end

-- nth_newest gives the score of the n-th newest member of a sorted set, or nil.
local function nth_newest(key, n)
  return tonumber(redis.call('ZREVRANGE', key, n - 1, n - 1, 'WITHSCORES')[2])
end

-- nobody stands for "no admission is planned ahead of this one"; see bound.
local nobody = { count = 0 }

-- counters gives what a plan's hash holds, read once: {token, at, gap, [rule] = {from, load} of each limit}. For a
-- fixed window `from` is its begin (nil: none yet) and `load` the admissions in it, for a bucket a moment and its debt.
local function counters(plan)
  if plan.counters then return plan.counters end
  local fields = { 'm', 'a', 'g' }
  for _, rule in ipairs(plan.rules) do
    if rule.kind == KIND_LIMIT then
      fields[#fields + 1] = 's' .. rule.window
      fields[#fields + 1] = 'n' .. rule.window
    end
  end
  local values = redis.call('HMGET', plan.state, unpack(fields))
  local found = { token = values[1], at = tonumber(values[2] or nil), gap = tonumber(values[3] or nil) }
  local v = 4
  for _, rule in ipairs(plan.rules) do
    if rule.kind == KIND_LIMIT then
      local load = tonumber(values[v + 1] or 0)
      -- A bucket emptied under a larger max, or by admissions that nobody judged, is no emptier than empty.
      if plan.algorithm == TOKEN_BUCKET then load = math.min(load, rule.max * rule.per) end
      found[rule] = { from = tonumber(values[v] or nil), load = load }
      v = v + 2
    end
  end
  plan.counters = found
  return found
end

-- rolling_bound: the earliest moment that the rule allows after the admissions in the log and those planned ahead.
local function rolling_bound(key, rule, ahead)
  local time
  if rule.max <= ahead.count then
    time = ahead.newest(rule.max)
  else
    time = nth_newest(key, rule.max - ahead.count)
    rule.room = not time and ahead.count == 0
  end
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
  if rule.kind == KIND_CAP then return rolling_bound(plan.cap, rule, ahead) end
  if plan.algorithm == ROLLING then return rolling_bound(plan.state, rule, ahead) end
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

-- charge_log adds an admission to a sorted set. It keeps the newest `max` entries of the past beside all that lie
-- ahead: an entry ahead may still be taken back, and the one that it would push out is then needed again. The key lives
-- until its latest entry has passed, which need not be this one. There is nothing to remove when the rule of the
-- largest max has just found room in the log.
local function charge_log(key, deepest, per, now, at, token)
  local time = digits(at)
  redis.call('ZADD', key, time, token)
  local newest = at
  if redis.call('ZCOUNT', key, '(' .. time, '+inf') > 0 then newest = nth_newest(key, 1) end
  if deepest.room then
    deepest.room = false
  else
    local ahead = 0
    if newest > now then ahead = redis.call('ZCOUNT', key, '(' .. digits(now), '+inf') end
    redis.call('ZREMRANGEBYRANK', key, 0, -1 - deepest.max - ahead)
  end
  redis.call('PEXPIRE', key, digits(math.ceil((newest - now + per) / 1000) + SLACK))
end

local function charge_counter(plan, c, rule, at)
  if plan.algorithm == TOKEN_BUCKET then
    c.load = bucket_debt(c, rule, at) + rule.per
    c.from = at
  elseif not c.from or at >= c.from + rule.per then
    c.from, c.load = at, 1
  else
    c.load = c.load + 1
  end
end

local function charge_counters(plan, now, at, token)
  local c = counters(plan)
  c.token, c.at = token, at
  local fields = { 'm', token, 'a', digits(at) }
  local latest = at
  local function set(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = digits(value)
  end
  for _, rule in ipairs(plan.rules) do
    if rule.kind == KIND_GAP then
      c.gap = math.max(c.gap or at, at)
      latest = math.max(latest, c.gap)
      set('g', c.gap)
    elseif rule.kind == KIND_LIMIT then
      charge_counter(plan, c[rule], rule, at)
      latest = math.max(latest, c[rule].from)
      set('s' .. rule.window, c[rule].from)
      set('n' .. rule.window, c[rule].load)
    end
  end
  redis.call('HSET', plan.state, unpack(fields))
  redis.call('PEXPIRE', plan.state, digits(math.ceil((latest - now + plan.state_per) / 1000) + SLACK))
end

-- charge writes an admission at a moment into the plan's state and the cap's log.
local function charge(plan, now, at, token)
  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then
      charge_log(plan.state, plan.state_deepest, plan.state_per, now, at, token)
    else
      charge_counters(plan, now, at, token)
    end
  end
  if plan.has_cap then charge_log(plan.cap, plan.cap_deepest, plan.cap_per, now, at, token) end
end

