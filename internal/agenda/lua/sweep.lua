-- sweep repairs a partition: it returns notifications whose lease has ended, ends those that expired while they waited, and
-- has those wake-ups come again that did not come in time, because a process died with them, or their task was lost.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  the process that sweeps
-- ARGV[2]  retention of ended notifications in ms
-- ARGV[3]  how long after its moment a wake-up is missed, in µs
-- ARGV[4]  how long a process that was neither heard nor seen counts as alive, in µs
-- ARGV[5]  crashes after which a notification is given up
-- ARGV[6]  how many of each to look at: leases, expired ones, wake-ups
-- ARGV[7]  truce in µs: how long no lease is ended after nobody could sweep
--
-- Result   {leases ended, expired, wake-ups replaced, 1 when there is more to be done at once or 0, what processes without
--          metrics accepted: {category, how many, …}, to be counted by who is told, deferrals decided: {category, how many,
--          rule, …}}
local process, retention, grace, presence = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local max_crashes, limit, truce = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local result = { 0, 0, 0, 0, {}, noted }

-- lapsed_by gives the moment up to which leases that ended are taken back: now, but after a gap between sweeps, in which
-- Redis was away or the partition's slot on its way, no one could settle either. Those who live get a truce to do so. It is
-- given once: what ended before the truce before this one is taken back in any case.
local function lapsed_by()
  local key = partition .. 'sweep'
  local f = redis.call('HMGET', key, 'last', 'truce', 'before')
  local last, began, before = tonumber(f[1] or now), tonumber(f[2] or 0), tonumber(f[3] or 0)
  if began > now then began, before = 0, 0 end -- the clock was set back
  if now - last > truce / 2 and now - began >= truce then before, began = began, now end
  redis.call('HSET', key, 'last', digits(now), 'truce', digits(began), 'before', digits(before))
  if now - began < truce then return before end
  return now
end

local function end_lease(id)
  redis.call('ZREM', partition .. 'e', id)
  local key = partition .. 'n:' .. id
  local f = redis.call('HMGET', key, 'c', 'u', 's', 'g')
  if f[3] ~= 's' then return end
  result[1] = result[1] + 1
  if redis.call('HINCRBY', key, 'x', '1') >= max_crashes then
    finish(id, 'F', 'crash_loop', retention)
    return
  end
  remember(id, now, 'lease_ended', '')
  if superseded(f[1], f[2], id) then
    finish(id, 'R', 'collapse_key', retention)
    return
  end
  redis.call('HSET', key, 'a', f[4])
  local agenda = open_agenda(f[2])
  join(agenda, id)
  stand(agenda, now)
end

local function expire(id)
  redis.call('ZREM', partition .. 'y', id)
  local user = redis.call('HGET', partition .. 'n:' .. id, 'u')
  if not user then return end
  local agenda = open_agenda(user)
  if not leave(agenda, id) then return end
  finish(id, 'E', 'expires_at', retention)
  result[2] = result[2] + 1
  save(agenda)
  drop_if_empty(agenda)
end

-- seen tells of a process when it was heard of last; they are read once.
local holders
local function seen(holder)
  if not holders then
    holders = {}
    local all, gone = redis.call('HGETALL', partition .. 'holders'), {}
    for i = 1, #all, 2 do
      holders[all[i]] = tonumber(all[i + 1])
      if holders[all[i]] < now - 60000000 then gone[#gone + 1] = all[i] end
    end
    if #gone > 0 then redis.call('HDEL', partition .. 'holders', unpack(gone)) end
  end
  return holders[holder] or 0
end

-- at_work tells whether the process that has a wake-up at work still lives and may still ask for it. Asking takes a moment;
-- five seconds after it nobody does any more, whoever lives.
local function at_work(agenda)
  if not agenda.generation then return false end
  local last = seen(agenda.holder)
  return agenda.held_until > now - 5 * grace and last > now - presence and last < now + presence
end

local function again(agenda, state)
  revoke(agenda, state)
  come(agenda, now)
  result[3] = result[3] + 1
end

-- Wake-ups that come by themselves: they are looked at again after as long as the others.
local coming = {}

-- inspect looks at a user whose moment has passed. Most wake-ups only wait for their turn in the queue.
local function inspect(user)
  local stands, state = standing(user)
  if stands and state == 'pending' then
    coming[#coming + 1] = digits(now)
    coming[#coming + 1] = user
    return
  end
  local agenda = open_agenda(user)
  if agenda.size == 0 and not agenda.generation and not earliest_later(agenda) and discard(user) then
    redis.call('ZREM', partition .. 'wakeups', user)
    return
  end
  if stands and state == 'active' and at_work(agenda) then
    coming[#coming + 1] = digits(now)
    coming[#coming + 1] = user
    return
  end
  if not state then
    state = 'active' -- its hash is gone: it may have been at work
  elseif state == 'pending' then
    state = nil -- its list is gone
  end
  again(agenda, state)
end

-- each has up to that many members of a sorted set handled that are due.
local function each(set, due, handle)
  local members = redis.call('ZRANGEBYSCORE', set, '-inf', digits(due), 'LIMIT', '0', limit)
  for _, member in ipairs(members) do handle(member) end
  if #members == limit then result[4] = 1 end
end

if not GUARDED then
  result[5] = redis.call('HGETALL', partition .. 'elsewhere')
  if #result[5] > 0 then redis.call('DEL', partition .. 'elsewhere') end
end
redis.call('HSET', partition .. 'holders', process, digits(now))
seen(process) -- which forgets those that are long gone
each(partition .. 'e', lapsed_by(), end_lease)
each(partition .. 'y', now, expire)
each(partition .. 'wakeups', now - grace, inspect)
if #coming > 0 then redis.call('ZADD', partition .. 'wakeups', unpack(coming)) end
close()
return result
