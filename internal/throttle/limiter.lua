-- The limiter's functions, put before every script that judges or charges a plan: those of this package and those of
-- the mailboxes. It only defines locals; nothing here runs by itself.
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
    plan.rules[r] = { max = max, per = per, kind = kind }
    if kind == KIND_CAP then
      plan.has_cap = true
      plan.cap_max = math.max(plan.cap_max, max)
      plan.cap_per = math.max(plan.cap_per, per)
    else
      plan.state_max = math.max(plan.state_max, max)
      plan.state_per = math.max(plan.state_per, per)
    end
    i = i + 3
  end
  return plan, i
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
      local per = digits(rule.per)
      fields[#fields + 1] = 's' .. per
      fields[#fields + 1] = 'n' .. per
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
-- until its latest entry has passed, which need not be this one.
local function charge_log(key, max, per, now, at, token)
  redis.call('ZADD', key, digits(at), token)
  local newest = nth_newest(key, 1)
  local ahead = 0
  if newest > now then ahead = redis.call('ZCOUNT', key, '(' .. digits(now), '+inf') end
  redis.call('ZREMRANGEBYRANK', key, 0, -1 - max - ahead)
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
      set('s' .. digits(rule.per), c[rule].from)
      set('n' .. digits(rule.per), c[rule].load)
    end
  end
  redis.call('HSET', plan.state, unpack(fields))
  redis.call('PEXPIRE', plan.state, digits(math.ceil((latest - now + plan.state_per) / 1000) + SLACK))
end

-- charge writes an admission at a moment into the plan's state and the cap's log.
local function charge(plan, now, at, token)
  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then
      charge_log(plan.state, plan.state_max, plan.state_per, now, at, token)
    else
      charge_counters(plan, now, at, token)
    end
  end
  if plan.has_cap then charge_log(plan.cap, plan.cap_max, plan.cap_per, now, at, token) end
end

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
      fields[#fields + 1] = 'n' .. digits(rule.per)
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

local function mend_log(key, now, per)
  local far = redis.call('ZRANGEBYSCORE', key, '(' .. digits(now + FAR_AHEAD), '+inf')
  if #far == 0 then return end
  for _, token in ipairs(far) do redis.call('ZADD', key, digits(now), token) end
  redis.call('PEXPIRE', key, digits(math.ceil((FAR_AHEAD + per) / 1000)))
end

local function mend_counters(plan, now)
  local c = counters(plan)
  local fields = {}
  for _, rule in ipairs(plan.rules) do
    if rule.kind == KIND_GAP and c.gap and c.gap > now + FAR_AHEAD then
      c.gap = now
      fields[#fields + 1] = 'g'
      fields[#fields + 1] = digits(now)
    elseif rule.kind == KIND_LIMIT and c[rule].from and c[rule].from > now + FAR_AHEAD then
      c[rule].from = now
      fields[#fields + 1] = 's' .. digits(rule.per)
      fields[#fields + 1] = digits(now)
    end
  end
  if #fields == 0 then return end
  redis.call('HSET', plan.state, unpack(fields))
  redis.call('PEXPIRE', plan.state, digits(math.ceil((FAR_AHEAD + plan.state_per) / 1000)))
end

-- mend moves what was written before the clock was set back to now, as if it had just happened: the limits hold, and
-- nobody waits longer than his windows.
local function mend(plan, now)
  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then mend_log(plan.state, now, plan.state_per) else mend_counters(plan, now) end
  end
  if plan.has_cap then mend_log(plan.cap, now, plan.cap_per) end
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

-- rolling_usage: how many admissions a rule's window holds, and when the oldest of them leaves it (0: none is in it).
local function rolling_usage(key, rule, now)
  local from = '(' .. digits(now - rule.per)
  local used = redis.call('ZCOUNT', key, from, '+inf')
  if used == 0 then return 0, 0 end
  local oldest = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return used, tonumber(oldest[2]) + rule.per
end

local function counter_usage(plan, rule, now)
  local c = counters(plan)[rule]
  if plan.algorithm == TOKEN_BUCKET then
    local debt = bucket_debt(c, rule, now)
    if debt == 0 then return 0, 0 end
    local used = math.ceil(debt / rule.per)
    return used, now + math.ceil((debt - (used - 1) * rule.per) / rule.max)
  end
  if not c.from or now >= c.from + rule.per or c.load == 0 then return 0, 0 end
  return c.load, c.from + rule.per
end

local function gap_usage(plan, rule, now)
  local last = counters(plan).gap
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
