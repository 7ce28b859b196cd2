-- take is what one tick asks (takes.lua asks for many): may somebody of this mailbox run? The head of the line runs, whoever asked; otherwise the tick is given a slot at which to ask again, or is let go because others suffice.
--
-- KEYS[1]   the lane's prefix
-- ARGV[1]   category
-- ARGV[2]   user
-- ARGV[3]   the tick
-- ARGV[4]   nonce of this question: asked twice with it, the answer is the same
-- ARGV[5]   1 when the tick has just been pulled off the queue, 0 when it asks again
-- ARGV[6]   horizon in µs: a slot that close is granted now, for its own moment
-- ARGV[7]   lease in µs
-- ARGV[8]   max_defer in µs
-- ARGV[9]   priority that bypasses, with every more urgent one (0: none, 9: all)
-- ARGV[10]  retention of ended notifications in ms
-- ARGV[11]  grace of the sweeper in µs
-- ARGV[12…] the plan, see read_plan
--
-- Result    {"run", now, at, rule, id, generation, attempt, failures, arrival, payload, extra tick or "", its slot,
--            deferrals, history, epoch of the lane}
--           {"wait", now, until, rule}  rule: its number in the plan; 0: the line is empty, something is due then, or this
--           script has ended as many as it may, and the tick has to ask again at once
--           {"done", now}
local tick, nonce, pulled = ARGV[3], ARGV[4], ARGV[5] == '1'
local horizon, lease, max_defer = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local bypass, retention, grace = tonumber(ARGV[9]), ARGV[10], tonumber(ARGV[11])
local name = ARGV[1] .. ':' .. ARGV[2]
local plan = plan_of(12, name, ARGV[2])
local now = now_micros()

local box = open_box(ARGV[1], ARGV[2])

local function granted_before()
  local asked = redis.call('HMGET', lane .. 'n:' .. tick, 'q', 'r', 'v')
  if asked[1] ~= nonce then return nil, asked[3] end
  local id = asked[2] or tick
  local f = redis.call('HMGET', lane .. 'n:' .. id, 's', 'm', 'g', 'o', 'f', 'v', 'b', 'd', 'h')
  if f[1] ~= 's' then return nil, asked[3] end
  local generation = tonumber(f[3])
  return { 'run', now, tonumber(f[2]), 0, id, generation, generation - tonumber(f[4] or 0), tonumber(f[5] or 0),
    tonumber(f[6]) + YEAR_2020, f[7], '', 0, tonumber(f[8] or 0), f[9] or '', EPOCH }
end

-- head gives the first in line that has not expired; nil when there is none, and true beside it when this script has ended
-- as many as it may.
local function head()
  while true do
    local id = redis.call('ZRANGE', box.line, 0, 0)[1]
    if not id then return nil end
    local f = redis.call('HMGET', lane .. 'n:' .. id, 'v', 'p', 'g', 'o', 'f', 'e', 'k', 'b', 'd', 'h')
    local expires = tonumber(f[6] or nil)
    if f[1] and not (expires and expires <= now) then
      return { id = id, arrival = tonumber(f[1]), priority = tonumber(f[2]), generation = tonumber(f[3] or 0),
        returned = tonumber(f[4] or 0), failures = tonumber(f[5] or 0), expires = expires, collapse = f[7], payload = f[8],
        deferrals = tonumber(f[9] or 0), history = f[10] or '' }
    end
    if budget <= 0 then return nil, true end
    budget = budget - 1
    leave(box, id)
    if f[1] then finish(id, now, 'E', 'expires_at', retention) end
  end
end

-- ask_again has the tick ask again at once, in a script of its own.
local function ask_again()
  redis.call('ZADD', box.ticks, 0, tick)
  return { 'wait', now, now, 0 }
end

-- cover_next makes sure that a tick comes at the next slot of a line that goes on; it returns the tick to be enqueued
-- and its slot, or "" and 0.
local function cover_next()
  if redis.call('EXISTS', box.line) == 0 then return '', 0 end
  local first = tonumber(redis.call('ZRANGE', box.ticks, 0, 0, 'WITHSCORES')[2] or nil)
  if first == 0 then return '', 0 end
  local slot = decide(plan, now, nobody)
  if first and first <= slot + TOLERANCE then return '', 0 end
  local extra = '~' .. nonce
  redis.call('ZADD', box.ticks, digits(slot), extra)
  return extra, slot
end

local function run(h, at, why, tick_known)
  local key = lane .. 'n:' .. h.id
  h.generation = h.generation + 1
  redis.call('ZREM', box.line, h.id)
  if h.collapse then release_collapse(box, h.id, h.collapse) end
  if h.expires then redis.call('ZREM', lane .. 'y', h.id) end
  charge(plan, now, at, h.id .. '#' .. h.generation)
  redis.call('ZADD', lane .. 'e', digits(at + lease), h.id)
  if tick == h.id then
    redis.call('HSET', key, 's', 's', 'g', h.generation, 'm', digits(at), 'q', nonce)
    redis.call('HDEL', key, 'r')
  else
    redis.call('HSET', key, 's', 's', 'g', h.generation, 'm', digits(at))
    if tick_known then redis.call('HSET', lane .. 'n:' .. tick, 'q', nonce, 'r', h.id) end
  end
  add_count('waiting', -1)
  add_count('attempts', 1)
  local extra, slot = cover_next()
  return { 'run', now, at, why, h.id, h.generation, h.generation - h.returned, h.failures, h.arrival + YEAR_2020, h.payload,
    extra, slot, h.deferrals, h.history, EPOCH }
end

-- first_uncovered walks the coming slots beside the ticks that stand ready, for a tick that lost its slot.
local function first_uncovered(limit)
  local own = {}
  local ahead = { count = 0, newest = function(n) return own[#own - n + 1] end }
  local ready = redis.call('ZRANGEBYSCORE', box.ticks, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  for j = 1, limit do
    ahead.count = #own
    local at, why = decide(plan, now, ahead)
    if #own > 0 then at = math.max(at, own[#own]) end
    local covered = tonumber(ready[2 * j] or nil)
    if not covered or covered > at + TOLERANCE then return at, why, j - 1 end
    own[j] = at
  end
  return nil
end

-- slot_for gives the slot for this tick, the rule behind it, and the rank in line that it serves. A tick that was woken
-- early keeps the slot it had.
local function slot_for(first_slot, first_why, taken, slot_before)
  if taken == 0 then return first_slot, first_why, 0 end
  local earliest = tonumber(redis.call('ZRANGEBYSCORE', box.ticks, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
  if earliest > first_slot + TOLERANCE then return first_slot, first_why, 0 end
  if slot_before > now + horizon then
    return slot_before, first_why, redis.call('ZCOUNT', box.ticks, '(0', digits(slot_before))
  end
  if slot_before > 0 then
    local at, why, rank = first_uncovered(128)
    if at then return at, why, rank end
  end
  local ahead = { count = taken, newest = function(n) return nth_newest(box.ticks, n) end }
  local at, why = decide(plan, now, ahead)
  return at, why, taken
end

local function too_late(id, slot)
  local f = redis.call('HMGET', lane .. 'n:' .. id, 'v', 't')
  local since = math.max(tonumber(f[1]) + YEAR_2020, tonumber(f[2] or 0))
  return slot - since > max_defer
end

-- sleep lets the tick serve what is later: the earliest due moment that no other tick serves.
local function sleep()
  local due = redis.call('ZRANGE', box.later, 0, 99, 'WITHSCORES')
  if #due == 0 then return { 'done', now } end
  local served = redis.call('ZRANGE', box.sleepers, 0, 99, 'WITHSCORES')
  for i = 2, #due, 2 do
    local at = tonumber(due[i])
    if not served[i] or tonumber(served[i]) > at then
      redis.call('ZADD', box.sleepers, digits(at), tick)
      return { 'wait', now, at, 0 }
    end
  end
  return { 'done', now }
end

-- wait gives the tick a slot, or lets it go when as many others as there are waiting come sooner (some were cancelled).
-- A notification counts as deferred again only when its slot moved back.
local function wait(first_slot, first_why, slot_before)
  box.capped = first_why > 0 and plan.rules[first_why].kind == KIND_CAP
  while true do
    local waiting = redis.call('ZCARD', box.line)
    local slot, why, rank = slot_for(first_slot, first_why, slots_taken(box), slot_before)
    if rank >= waiting then return sleep() end
    local served = redis.call('ZRANGE', box.line, rank, rank)[1]
    if not too_late(served, slot) then
      redis.call('ZADD', box.ticks, digits(slot), tick)
      if slot_before == 0 or pulled and slot > slot_before + TOLERANCE then
        add_count('deferrals', 1)
        redis.call('HINCRBY', lane .. 'n:' .. served, 'd', 1)
        remember(served, now, 'deferred', digits(slot) .. ' ' .. why)
      end
      return { 'wait', now, slot, why }
    end
    if budget <= 0 then return ask_again() end
    budget = budget - 1
    leave(box, served)
    finish(served, now, 'E', 'max_defer', retention)
  end
end

local function answer()
  local again, tick_known = granted_before()
  if again then return again end
  local slot_before = tonumber(redis.call('ZSCORE', box.ticks, tick) or nil)
  if slot_before then redis.call('ZREM', box.ticks, tick) else redis.call('ZREM', box.sleepers, tick) end
  budget = budget - promote(box, now, budget)
  local h, more = head()
  local result
  if more then
    result = ask_again()
  elseif not h then
    result = sleep()
  elseif h.priority <= bypass then
    result = run(h, now, 0, tick_known)
  else
    local at, why = judge(plan, now)
    if at <= now + horizon then
      result = run(h, at, why, tick_known)
    else
      result = wait(at, why, slot_before or 0)
    end
  end
  account(box, now, grace)
  return result
end

return answer()
