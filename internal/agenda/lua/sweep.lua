-- sweep repairs a partition. It puts notifications whose lease has ended back into their backlogs, ends those that
-- expired while they waited, and replaces wake-ups that did not come in time, because their process died or their task
-- was lost, or that come too late, because the clock was set back.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  the process that sweeps
-- ARGV[2]  retention of ended notifications in ms
-- ARGV[3]  how long after its moment a wake-up counts as missing, in µs
-- ARGV[4]  how long a process that neither sweeps nor pulls counts as alive, in µs
-- ARGV[5]  crashes after which a notification is given up, in a store that is not guarded
-- ARGV[6]  how many of each to look at: leases, expired ones, wake-ups
-- ARGV[7]  truce in µs: how long no lease is ended after a time in which nobody could sweep
-- ARGV[8]  lease in µs
--
-- Result   {leases ended, expired, wake-ups replaced, 1 when there is more to do at once or 0, what processes without
--          metrics accepted, for the caller to count: {category, how many, …}, deferrals decided: {user, category,
--          how many, rule, …}, by how many µs the clock was set back, once, else 0}
local process, retention, grace, presence = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local max_crashes, limit, truce = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local result = { 0, 0, 0, 0, {}, deferrals, 0 }

-- end_lease puts a notification whose lease has ended back into its backlog, unless it has crashed too often. In a
-- guarded store the claims are what tells crashes: a lease ends also when a result could not be told to Redis.
local function end_lease(id)
  redis.call('ZREM', partition .. 'e', id)
  local key = partition .. 'n:' .. id
  local f = redis.call('HMGET', key, 'c', 'u', 's', 'g', 'm', 'o', 'P')
  if f[3] ~= 's' then return end
  result[1] = result[1] + 1
  add_to_history(id, now, 'crashed', digits(now) .. ' the worker did not report in time\t\t' .. f[5] .. ' ' ..
    digits(f[4] - (f[6] or 0)) .. ' ' .. (f[7] or ''))
  if not GUARDED and redis.call('HINCRBY', key, 'x', '1') >= max_crashes then
    finish(id, f[1], 'F', 'crash_loop', retention)
    return
  end
  if superseded(f[1], f[2], id) then
    finish(id, f[1], 'R', 'collapse_key', retention)
    return
  end
  redis.call('HSET', key, 'a', f[4])
  local agenda = open_agenda(f[2])
  return_to_backlog(agenda, id)
  ensure_wakeup(agenda, now)
end

-- expire ends a waiting notification that has reached its expires_at.
local function expire(id)
  redis.call('ZREM', partition .. 'y', id)
  local user = redis.call('HGET', partition .. 'n:' .. id, 'u')
  if not user then return end
  local agenda = open_agenda(user)
  local category = remove_waiting(agenda, id)
  if not category then return end
  finish(id, category, 'E', 'expires_at', retention)
  result[2] = result[2] + 1
  wake_for_expiry(agenda, category)
  save_agenda(agenda)
  cover_rest(agenda)
  remove_if_empty(agenda)
end

-- last_seen returns when a process swept or pulled last. All processes are read at once.
local holders
local function last_seen(holder)
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

-- is_held reports whether the process that holds a wake-up is alive and may still ask for it. It asks soon after the
-- moment; when five times the grace has passed, it will not ask any more.
local function is_held(agenda)
  if not agenda.generation then return false end
  local last = last_seen(agenda.holder)
  return agenda.held_until > now - 5 * grace and last > now - presence and last < now + presence
end

local function replace_wakeup(agenda, state)
  remove_wakeup(agenda, state)
  place_wakeup(agenda, now)
  result[3] = result[3] + 1
end

-- Wake-ups that need no repair: the sweeper looks at them again later.
local still_coming = {}

-- check_wakeup checks a wake-up whose moment has passed. Most only wait for their turn in the queue.
local function check_wakeup(user)
  local stands, state = find_task(user)
  if stands and state == 'pending' then
    still_coming[#still_coming + 1] = digits(now)
    still_coming[#still_coming + 1] = user
    return
  end
  local agenda = open_agenda(user)
  if agenda.size == 0 and not agenda.generation and not earliest_later(agenda) and remove_unneeded_task(user) then
    redis.call('ZREM', partition .. 'wakeups', user)
    unmark_personal(agenda)
    return
  end
  if stands and state == 'active' and is_held(agenda) then
    still_coming[#still_coming + 1] = digits(now)
    still_coming[#still_coming + 1] = user
    return
  end
  if not state then
    state = LOST
  elseif state == 'pending' then
    state = nil -- its list is gone
  end
  replace_wakeup(agenda, state)
end

-- each_due calls handle with the members of a sorted set that are due, up to the limit.
local function each_due(set, due, handle)
  local members = redis.call('ZRANGEBYSCORE', set, '-inf', digits(due), 'LIMIT', '0', limit)
  for _, member in ipairs(members) do handle(member) end
  if #members == limit then result[4] = 1 end
end

-- catch_up sees to what comes too late because the clock was set back: a lease ends no later than one that begins now,
-- retries come as much sooner, and users are woken, for their wake-ups were set by windows that count from now on. Each
-- sweep sees to some of them, the latest wake-ups first, so that they do not all come at once.
local catch_up
do
  local left = limit

  local function cap_leases(most)
    local late = redis.call('ZRANGEBYSCORE', partition .. 'e', '(' .. digits(most), '+inf', 'LIMIT', '0', limit)
    for _, id in ipairs(late) do redis.call('ZADD', partition .. 'e', digits(most), id) end
  end

  local function advance_retries(agenda, back)
    if not agenda.has_later then return end
    local later = redis.call('ZRANGEBYSCORE', agenda.later, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', '0',
      digits(left))
    for i = 1, #later, 2 do
      local key, due = partition .. 'n:' .. later[i], digits(math.max(now, tonumber(later[i + 1]) - back))
      if redis.call('HGET', key, 's') == 'r' then
        redis.call('ZADD', agenda.later, due, later[i])
        redis.call('HSET', key, 'r', due)
      end
      left = left - 1
    end
  end

  function catch_up(back, lease)
    local key = partition .. 'sweep'
    local upto = redis.call('HGET', key, 'upto')
    if not upto then result[7] = back end
    cap_leases(now + lease + 1000000)
    local late = redis.call('ZREVRANGEBYSCORE', partition .. 'wakeups', upto or '+inf', '(' .. digits(now), 'WITHSCORES',
      'LIMIT', '0', limit)
    for i = 1, #late, 2 do
      if left <= 0 then break end
      local agenda = open_agenda(late[i])
      advance_retries(agenda, back)
      ensure_wakeup(agenda, now)
      left, upto = left - 1, late[i + 1]
    end
    if #late == 0 then
      redis.call('HDEL', key, 'back', 'upto')
    else
      redis.call('HSET', key, 'upto', upto)
    end
  end
end

if not GUARDED then
  result[5] = redis.call('HGETALL', partition .. 'elsewhere')
  if #result[5] > 0 then redis.call('DEL', partition .. 'elsewhere') end
end
redis.call('HSET', partition .. 'holders', process, digits(now))
last_seen(process) -- removes processes that are long gone
local ended, set_back = ended_leases_until(partition, now, truce)
if set_back then catch_up(tonumber(set_back), tonumber(ARGV[8])) end
each_due(partition .. 'e', ended, end_lease)
each_due(partition .. 'y', now, expire)
each_due(partition .. 'wakeups', now - grace, check_wakeup)
if #still_coming > 0 then redis.call('ZADD', partition .. 'wakeups', unpack(still_coming)) end
write_changes()
return result
