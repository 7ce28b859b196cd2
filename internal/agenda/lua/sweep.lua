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
  local category, user, state, generation, admitted, returned, basis = unpack(redis.call('HMGET', key, F.category,
    F.user, F.state, F.generation, F.admitted, F.returned, F.basis))
  if state ~= S.sending then return end
  result[1] = result[1] + 1
  add_to_history(id, now, 'crashed', digits(now) .. ' the worker did not report in time\t\t' .. admitted .. ' ' ..
    digits(generation - (returned or 0)) .. ' ' .. (basis or ''))
  if not GUARDED and redis.call('HINCRBY', key, F.crashes, '1') >= max_crashes then
    finish(id, category, S.failed, 'crash_loop', retention)
    digests.end_items(id, category, S.failed, retention)
    return
  end
  if not digests.freeze(id) and superseded(category, user, id) then
    finish(id, category, S.replaced, 'collapse_key', retention)
    return
  end
  redis.call('HSET', key, F.lapsed, generation)
  local agenda = open_agenda(user)
  return_to_backlog(agenda, id)
  ensure_wakeup(agenda, now)
end

-- expire ends a waiting notification that has reached its expires_at.
local function expire(id)
  redis.call('ZREM', partition .. 'y', id)
  local user = redis.call('HGET', partition .. 'n:' .. id, F.user)
  if not user then return end
  local agenda = open_agenda(user)
  local category = remove_waiting(agenda, id)
  if not category then return end
  finish(id, category, S.expired, 'expires_at', retention)
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

-- catch_up sees to what comes too late because the clock was set back. A lease ends no later than one that begins now, a
-- retry waits for its whole back-off once more at most, and users are woken, for their wake-ups were set by windows that
-- count from now on. Each sweep sees to some users, the latest wake-ups first, and goes on from there: nobody is woken
-- again for a wake-up that was set meanwhile, unless it comes sooner.
local catch_up
do
  -- How many users it may see to, and how many notifications that are later.
  local key, users, looks = partition .. 'sweep', limit, 5 * limit

  -- before returns members of a sorted set with their scores: those in front of a place, the last first. A place is
  -- the score and the member that stood there, which may have moved since.
  local function before(set, place, most)
    if not place then return redis.call('ZREVRANGE', set, '0', digits(most - 1), 'WITHSCORES') end
    local score, member = string.match(place, '^(%S+) (.*)$')
    local moved_to = redis.call('ZSCORE', set, member)
    redis.call('ZADD', set, score, member)
    local rank = redis.call('ZREVRANK', set, member)
    local found = redis.call('ZREVRANGE', set, digits(rank + 1), digits(rank + most), 'WITHSCORES')
    if moved_to then redis.call('ZADD', set, moved_to, member) else redis.call('ZREM', set, member) end
    return found
  end

  local function cap_leases(most)
    local late = redis.call('ZRANGEBYSCORE', partition .. 'e', '(' .. digits(most), '+inf', 'LIMIT', '0', limit)
    for _, id in ipairs(late) do redis.call('ZADD', partition .. 'e', digits(most), id) end
    return #late < limit
  end

  -- advance_retries looks at what is later of a user, and returns the place from which the next sweep has to go on; nil
  -- when all was seen.
  local function advance_retries(agenda, place, back)
    if not agenda.has_later then return end
    local later = before(agenda.later, place, looks)
    for i = 1, #later, 2 do
      if tonumber(later[i + 1]) <= now then return end
      looks = looks - 1
      advance_retry(agenda, later[i], tonumber(later[i + 1]), back)
    end
    if looks == 0 then return later[#later] .. ' ' .. later[#later - 1] end
  end

  -- wake wakes a user, and returns what advance_retries does.
  local function wake(user, place, back)
    local agenda = open_agenda(user)
    local rest = advance_retries(agenda, place, back)
    ensure_wakeup(agenda, now)
    return rest
  end

  -- wake_late wakes users. It returns the place of the last, and the place among what is later of that user from which
  -- the next sweep has to go on; nil when all are awake.
  local function wake_late(place, rest, back)
    if rest then
      rest = wake(string.match(place, '^%S+ (.*)$'), rest, back)
      if rest then return place, rest end
    end
    local late = before(partition .. 'wakeups', place, users)
    for i = 1, #late, 2 do
      if tonumber(late[i + 1]) <= now then return end
      place = late[i + 1] .. ' ' .. late[i]
      rest = wake(late[i], nil, back)
      if rest then return place, rest end
      users = users - 1
      if users == 0 then return place end
    end
  end

  function catch_up(back, lease)
    local f = redis.call('HMGET', key, 'upto', 'rest')
    if not f[1] then result[7] = back end
    local capped, place, rest = cap_leases(now + lease + 1000000), nil, nil
    if f[1] ~= '' then place, rest = wake_late(f[1], f[2], back) end
    redis.call('HDEL', key, 'upto', 'rest')
    if place or not capped then redis.call('HSET', key, 'upto', place or '') else redis.call('HDEL', key, 'back') end
    if rest then redis.call('HSET', key, 'rest', rest) end
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
