-- The limiter's functions, put before every script that judges or charges a plan: those of this package and those of
-- the mailboxes. It only defines locals; nothing here runs by itself.
--
-- A plan limits one key. Its state:
--   rolling        sorted set   member = token of the admission, score = its time in µs
--   fixed_window   hash         s<per> begin of the window in µs, n<per> admissions in it, g last admission in µs
--   token_bucket   hash         f<per> moment in µs at which the bucket is full again, g last admission in µs
-- The cap is always a rolling sorted set of its own.
--
-- Times are µs since the epoch on this server's clock. They are below 2^53, so a double holds them exactly; they are
-- written with %.0f, since Lua's own conversion keeps 14 digits only.

local ROLLING, FIXED_WINDOW, TOKEN_BUCKET = 0, 1, 2
local KIND_GAP, KIND_CAP = 1, 2

local function now_micros()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function digits(n)
  return string.format('%.0f', n)
end

-- read_plan reads a plan from ARGV, from index i on: algorithm, number of rules, then max, per in µs and kind of each
-- (0 limit, 1 gap, 2 cap). Returns the plan and the index after it.
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
  local last = tonumber(redis.call('HGET', plan.state, 'g') or nil)
  return last and last + rule.per
end

local function window_bound(plan, rule, now, ahead)
  local f = digits(rule.per)
  local window = redis.call('HMGET', plan.state, 's' .. f, 'n' .. f)
  local start, used = tonumber(window[1] or nil), tonumber(window[2] or nil)
  if not start or now >= start + rule.per then start, used = now, 0 end
  return start + math.floor((used + ahead.count) / rule.max) * rule.per
end

local function bucket_bound(plan, rule, now, ahead)
  local full = tonumber(redis.call('HGET', plan.state, 'f' .. digits(rule.per)) or nil)
  if not full or full < now then full = now end
  return math.ceil(full + (ahead.count + 1) * (rule.per / rule.max) - rule.per)
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
-- ahead: an entry ahead may still be taken back, and the one that it would push out is then needed again.
local function charge_log(key, max, per, now, at, token)
  redis.call('ZADD', key, digits(at), token)
  local spare = redis.call('ZCARD', key) - max
  if spare > 0 then
    spare = spare - redis.call('ZCOUNT', key, '(' .. digits(now), '+inf')
    if spare > 0 then redis.call('ZREMRANGEBYRANK', key, 0, spare - 1) end
  end
  redis.call('PEXPIRE', key, digits(math.ceil((at - now + per) / 1000) + 1))
end

local function charge_window(plan, rule, at)
  local f = digits(rule.per)
  local start = tonumber(redis.call('HGET', plan.state, 's' .. f) or nil)
  if not start or at >= start + rule.per then
    redis.call('HSET', plan.state, 's' .. f, digits(at), 'n' .. f, 1)
  else
    redis.call('HINCRBY', plan.state, 'n' .. f, 1)
  end
end

local function charge_bucket(plan, rule, at)
  local f = 'f' .. digits(rule.per)
  local full = tonumber(redis.call('HGET', plan.state, f) or nil)
  if not full or full < at then full = at end
  redis.call('HSET', plan.state, f, string.format('%.17g', full + rule.per / rule.max))
end

local function charge_counters(plan, now, at)
  for _, rule in ipairs(plan.rules) do
    if rule.kind == KIND_GAP then
      redis.call('HSET', plan.state, 'g', digits(at))
    elseif rule.kind ~= KIND_CAP then
      if plan.algorithm == FIXED_WINDOW then charge_window(plan, rule, at) else charge_bucket(plan, rule, at) end
    end
  end
  redis.call('PEXPIRE', plan.state, digits(math.ceil((at - now + plan.state_per) / 1000) + 1))
end

-- charge writes an admission at a moment into the plan's state and the cap's log.
local function charge(plan, now, at, token)
  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then
      charge_log(plan.state, plan.state_max, plan.state_per, now, at, token)
    else
      charge_counters(plan, now, at)
    end
  end
  if plan.has_cap then charge_log(plan.cap, plan.cap_max, plan.cap_per, now, at, token) end
end

local function refund_counter(plan, rule, at)
  local f = digits(rule.per)
  if plan.algorithm == FIXED_WINDOW then
    local start = tonumber(redis.call('HGET', plan.state, 's' .. f) or nil)
    local used = tonumber(redis.call('HGET', plan.state, 'n' .. f) or 0)
    if start and at >= start and at < start + rule.per and used > 0 then redis.call('HINCRBY', plan.state, 'n' .. f, -1) end
  else
    local full = tonumber(redis.call('HGET', plan.state, 'f' .. f) or nil)
    if full then redis.call('HSET', plan.state, 'f' .. f, string.format('%.17g', full - rule.per / rule.max)) end
  end
end

-- refund takes an admission back that surely had no effect. The gap needs no earlier time restored: the admission
-- before this one was a gap older than it.
local function refund(plan, at, token)
  if plan.state_max > 0 then
    if plan.algorithm == ROLLING then
      redis.call('ZREM', plan.state, token)
    elseif redis.call('EXISTS', plan.state) == 1 then
      for _, rule in ipairs(plan.rules) do
        if rule.kind == KIND_GAP then
          if redis.call('HGET', plan.state, 'g') == digits(at) then redis.call('HDEL', plan.state, 'g') end
        elseif rule.kind ~= KIND_CAP then
          refund_counter(plan, rule, at)
        end
      end
    end
  end
  if plan.has_cap then redis.call('ZREM', plan.cap, token) end
end

-- rolling_usage: how many admissions a rule's window holds, and when the oldest of them leaves it (0: none is in it).
local function rolling_usage(key, rule, now)
  local from = '(' .. digits(now - rule.per)
  local used = redis.call('ZCOUNT', key, from, '+inf')
  if used == 0 then return 0, 0 end
  local oldest = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return used, tonumber(oldest[2]) + rule.per
end

local function window_usage(plan, rule, now)
  local f = digits(rule.per)
  local start = tonumber(redis.call('HGET', plan.state, 's' .. f) or nil)
  if not start or now >= start + rule.per then return 0, 0 end
  local used = tonumber(redis.call('HGET', plan.state, 'n' .. f))
  if used == 0 then return 0, 0 end
  return used, start + rule.per
end

local function bucket_usage(plan, rule, now)
  local full = tonumber(redis.call('HGET', plan.state, 'f' .. digits(rule.per)) or nil)
  if not full or full <= now then return 0, 0 end
  local used = math.ceil((full - now) * rule.max / rule.per)
  return used, math.ceil(full - (used - 1) * (rule.per / rule.max))
end

local function gap_usage(plan, rule, now)
  local last = tonumber(redis.call('HGET', plan.state, 'g') or nil)
  if not last or now >= last + rule.per then return 0, 0 end
  return 1, last + rule.per
end

-- usage of one rule: admissions that count against it now, and when the next of them stops counting (0: none counts).
local function usage(plan, rule, now)
  if rule.kind == KIND_CAP then return rolling_usage(plan.cap, rule, now) end
  if plan.algorithm == ROLLING then return rolling_usage(plan.state, rule, now) end
  if rule.kind == KIND_GAP then return gap_usage(plan, rule, now) end
  if plan.algorithm == FIXED_WINDOW then return window_usage(plan, rule, now) end
  return bucket_usage(plan, rule, now)
end
