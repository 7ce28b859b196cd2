-- sweep repairs a lane: returns notifications whose lease has ended, ends those that expired while waiting, and finds
-- mailboxes that should have moved and did not, because a tick was lost with its worker or on its way into the queue.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  prefix of the keys of the lane's asynq queue, which share the slot; only tasks that are replaced leave its schedules
-- ARGV[2]  nonce of this sweep
-- ARGV[3]  retention of ended notifications in ms
-- ARGV[4]  grace in µs
-- ARGV[5]  crashes after which a notification is given up
-- ARGV[6]  how many of each to look at: leases, expired ones, ticks
-- ARGV[7]  truce in µs: how long no lease is ended after nobody could sweep
--
-- Result   {leases ended, expired, mailboxes repaired, 1 when there is more to be done at once or 0, what processes without
--          metrics accepted: {category, how many, …}, to be counted by who is told; then per new tick: tick, category, user}
local tasks, nonce, retention = ARGV[1], ARGV[2], ARGV[3]
local grace, max_crashes, limit = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local truce = tonumber(ARGV[7])
local now = now_micros()
local result = { 0, 0, 0, 0, {} }

local function kick(box)
  local tick = '~' .. nonce .. '-' .. (#result - 5) / 3
  redis.call('ZADD', box.ticks, 0, tick)
  result[#result + 1] = tick
  result[#result + 1] = box.category
  result[#result + 1] = box.user
end

-- lapsed_by gives the moment up to which leases that ended are taken back: now, but after a gap between sweeps, in which
-- Redis was away or the lane's slot on its way, no one could settle either. Those who live get a truce to do so. It is
-- given once: what ended before the truce before this one is taken back in any case.
local function lapsed_by()
  local key = lane .. 'sweep'
  local f = redis.call('HMGET', key, 'last', 'truce', 'before')
  local last, began, before = tonumber(f[1] or now), tonumber(f[2] or 0), tonumber(f[3] or 0)
  if began > now then began, before = 0, 0 end -- the clock was set back
  if now - last > truce / 2 and now - began >= truce then before, began = began, now end
  redis.call('HSET', key, 'last', digits(now), 'truce', digits(began), 'before', digits(before))
  if now - began < truce then return before end
  return now
end

local function end_lease(id)
  redis.call('ZREM', lane .. 'e', id)
  local key = lane .. 'n:' .. id
  local f = redis.call('HMGET', key, 'c', 'u', 's')
  if f[3] ~= 's' then return end
  local box = open_box(f[1], f[2])
  result[1] = result[1] + 1
  if redis.call('HINCRBY', key, 'x', 1) >= max_crashes then
    finish(id, now, 'F', 'crash_loop', retention)
    return
  end
  remember(id, now, 'lease_ended', '')
  if superseded(box, id) then
    finish(id, now, 'R', 'collapse_key', retention)
    return
  end
  join(box, id)
  kick(box)
  account(box, now, grace)
end

local function expire(id)
  redis.call('ZREM', lane .. 'y', id)
  local f = redis.call('HMGET', lane .. 'n:' .. id, 'c', 'u')
  if not f[1] then return end
  local box = open_box(f[1], f[2])
  if not leave(box, id) then return end
  finish(id, now, 'E', 'expires_at', retention)
  account(box, now, grace)
  result[2] = result[2] + 1
end

-- looks is how many ticks may still be looked at.
local looks = limit

-- withdraw takes the task of a tick that is to be replaced out of asynq's schedules. There it would lie until its time, an hour
-- by a clock that was an hour ahead, and a tick of the same name would be taken for enqueued. What a worker holds is its own.
local function withdraw(tick)
  local task = tasks .. 't:' .. tick
  local state = redis.call('HGET', task, 'state')
  if state ~= 'scheduled' and state ~= 'retry' then return end
  redis.call('ZREM', tasks .. 'scheduled', tick)
  redis.call('ZREM', tasks .. 'retry', tick)
  redis.call('DEL', task)
end

-- bury_between removes ticks with slots in a range that no task stands behind any more, or one that comes only 2 s after the
-- slot. It gives how many it removed, and whether there may be more in the range.
local function bury_between(ticks, low, high)
  local may_look = looks
  local found = redis.call('ZRANGEBYSCORE', ticks, low, high, 'WITHSCORES', 'LIMIT', 0, may_look)
  local dead = 0
  for i = 1, #found, 2 do
    if not alive(tasks, found[i], now, math.max(now, tonumber(found[i + 1])) / 1000000 + 2) then
      redis.call('ZREM', ticks, found[i])
      withdraw(found[i])
      dead = dead + 1
    end
  end
  looks = looks - #found / 2
  return dead, #found / 2 == may_look
end

-- bury removes the dead among the overdue ticks of a set, and where there were any also among those to come, which would
-- be counted on for their slots. It tells whether the set is to be replaced: some were dead, or there is none at all; and
-- whether there may be more dead ones behind.
local function bury(ticks)
  local overdue = digits(now - grace / 2)
  local dead, more = bury_between(ticks, '-inf', overdue)
  if dead > 0 and not more then
    local coming, rest = bury_between(ticks, '(' .. overdue, '+inf')
    more = coming > 0 and rest
  end
  return dead > 0 or redis.call('EXISTS', ticks) == 0, dead > 0 and more
end

-- inspect replaces lost ticks of a mailbox by one, once all the dead are out of the way: while one of them is believed
-- to come, no tick is made for the next slot.
local function inspect(name)
  local box = box_of_name(name)
  local line_stuck, later_stuck, more_line, more_later = false, false, false, false
  if redis.call('EXISTS', box.line) == 1 then line_stuck, more_line = bury(box.ticks) end
  if redis.call('EXISTS', box.later) == 1 and not more_line then later_stuck, more_later = bury(box.sleepers) end
  if more_line or more_later then
    account(box, now, grace)
    redis.call('ZADD', lane .. 'm', digits(now), name)
    result[4] = 1
    return
  end
  if line_stuck or later_stuck then
    kick(box)
    result[3] = result[3] + 1
  end
  account(box, now, grace)
end

-- each has up to that many members of a sorted set handled that are due, while it may go on.
local function each(set, due, handle, may)
  local members = redis.call('ZRANGEBYSCORE', set, '-inf', digits(due), 'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    if may and not may() then
      result[4] = 1
      return
    end
    handle(member)
  end
  if #members == limit then result[4] = 1 end
end

if not GUARDED then
  result[5] = redis.call('HGETALL', lane .. 'elsewhere')
  if #result[5] > 0 then redis.call('DEL', lane .. 'elsewhere') end
end

each(lane .. 'e', lapsed_by(), end_lease)
each(lane .. 'y', now, expire)
each(lane .. 'm', now, inspect, function() return looks > 0 end)
return result
