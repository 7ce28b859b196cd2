-- The functions that work on single notifications: their history, their ends, their collapse keys, and their moves
-- between a backlog and what is later. They stand after agenda.lua.

local function add_to_history(id, at, kind, detail)
  local key = partition .. 'n:' .. id
  local history = redis.call('HGET', key, 'h') or ''
  if #history > 4096 then return end
  redis.call('HSET', key, 'h', history .. digits(at) .. ' ' .. kind .. ' ' .. detail .. '\n')
end

-- deferral_of returns the line of history about the deferral of a notification in a backlog.
local function deferral_of(backlog, accepted)
  local since = math.max(backlog.since, accepted)
  return digits(since) .. ' deferred ' .. digits(math.max(backlog.next, since)) .. ' ' .. backlog.rule .. '\n'
end

-- finish ends a notification of a category that has been taken out of its backlog. `detail` explains the reason, see the
-- field q.
local finish
do
  -- The reasons for which scripts end notifications undelivered, by the names under which they are counted.
  local ENDS = {
    max_defer = 'expired max_defer', expires_at = 'expired expires_at', crash_loop = 'failed crash_loop',
    quiet_hours = 'expired quiet_hours',
  }

  function finish(id, category, state, reason, retention, detail)
    local key = partition .. 'n:' .. id
    redis.call('HSET', key, 's', state, 'y', reason, 'z', digits(now), 'q', detail or '')
    redis.call('PEXPIRE', key, retention)
    count(state, 1)
    if ENDS[reason] then count(ENDS[reason], 1) end
    note_history(state, category)
    if not GUARDED then return end
    if detail then reason = reason .. '\t' .. detail end
    redis.call('HSET', partition .. 'z', id, state .. digits(now) .. ' ' .. reason)
  end
end

-- How long the newest arrival with a collapse key is remembered, in ms. An older notification can come back while it is
-- in flight or on its way here, which takes much less than an hour. Where this is the store, see accept.lua.
local COLLAPSE_LIFE = 3600000

local function collapse_set(category, user) return partition .. 'x:' .. category .. ':' .. user end

local function newest_key(category, user, collapse_key)
  return partition .. 'h:' .. #collapse_key .. ':' .. collapse_key .. ':' .. category .. ':' .. user
end

-- superseded reports whether a newer notification with the same collapse key was accepted: it waits, or it is
-- remembered. Then the older one must not wait again.
local function superseded(category, user, id)
  local fields = redis.call('HMGET', partition .. 'n:' .. id, 'k', 'v')
  if not fields[1] then return false end
  local arrival = tonumber(fields[2])
  local newest = redis.call('GET', newest_key(category, user, fields[1]))
  if newest and tonumber(newest) > arrival then return true end
  local waiting = redis.call('HGET', collapse_set(category, user), fields[1])
  return waiting and waiting ~= id and tonumber(redis.call('HGET', partition .. 'n:' .. waiting, 'v') or 0) > arrival
end

local function release_collapse(category, user, id, collapse_key)
  if not collapse_key or collapse_key == '' then return end
  local set = collapse_set(category, user)
  if redis.call('HGET', set, collapse_key) == id then redis.call('HDEL', set, collapse_key) end
end

-- note_later_removal updates the counts after a notification was taken out of the set of what is later.
local function note_later_removal(id, state, held)
  count(state == 't' and 'scheduled' or 'retrying', -1)
  if held then
    count('held', -1)
    redis.call('HDEL', partition .. 'n:' .. id, 'w')
  end
end

-- add_later puts a notification into the set of what is later.
local function add_later(agenda, id, due)
  redis.call('ZADD', agenda.later, due, id)
  if agenda.has_later then return end
  agenda.has_later = true
  redis.call('HSET', agenda.key, '+', '')
end

-- earliest_later returns when the first of what is later is due, or nil when nothing is later.
local function earliest_later(agenda)
  if not agenda.has_later then return nil end
  local due = tonumber(redis.call('ZRANGE', agenda.later, '0', '0', 'WITHSCORES')[2])
  if not due then
    agenda.has_later = false
    redis.call('HDEL', agenda.key, '+')
  end
  return due
end

-- advance_retry has a retry that was set at a moment which is yet to come, because the clock was set back, wait as if it
-- were set now. `back` is by how much the clock was set back, when that is known: a process of the version before does
-- not note when a retry was set. It returns when the retry is due.
local function advance_retry(agenda, id, due, back)
  local key = partition .. 'n:' .. id
  local f = redis.call('HMGET', key, 's', 'R')
  local set = tonumber(f[2] or back and now + back or 0)
  if f[1] ~= 'r' or set <= now then return due end
  due = math.max(now, now + due - set)
  redis.call('ZADD', agenda.later, digits(due), id)
  redis.call('HSET', key, 'r', digits(due), 'R', digits(now))
  return due
end

-- remove_waiting takes a notification out of its backlog, or out of what is later, and returns its category. It returns
-- false when the notification is in neither. Its caller has to call cover_rest, unless it looks at all that waits.
local function remove_waiting(agenda, id)
  local key = partition .. 'n:' .. id
  local f = redis.call('HMGET', key, 'c', 'k', 'e', 'j', 's', 'w', 'A', 'd', 'l', 't', 'n')
  local backlog = agenda.backlogs[f[1]]
  if backlog and redis.call('ZREM', backlog.key, id) == 1 then
    if f[9] or f[10] or f[11] then redis.call('ZREM', strays_of(backlog), id) end
    if was_deferred(backlog, f[4]) and not f[8] then
      redis.call('HSET', key, 'd', '1')
      redis.call('HSET', key, 'h', (redis.call('HGET', key, 'h') or '') .. deferral_of(backlog, tonumber(f[7])))
    end
    note_removal(agenda, backlog, f[4])
    agenda.uncovered = agenda.uncovered or backlog.named
  elseif redis.call('ZREM', agenda.later, id) == 1 then
    note_later_removal(id, f[5], f[6])
    earliest_later(agenda)
  else
    return false
  end
  release_collapse(f[1], agenda.user, id, f[2])
  if f[3] then redis.call('ZREM', partition .. 'y', id) end
  return f[1]
end

-- return_to_backlog puts a known notification into its backlog, at the place of its priority and arrival. One that
-- replaced another has the arrival of the other. It returns the backlog.
local function return_to_backlog(agenda, id)
  local key = partition .. 'n:' .. id
  local f = redis.call('HMGET', key, 'p', 'v', 'k', 'e', 'l', 'c', 'd', 'i', 'j', 't', 'n', 'A')
  local backlog, arrival = backlog_of(agenda, f[6]), tonumber(f[5] or f[2])
  local since = stray_since(tonumber(f[12]), f[5], math.max(tonumber(f[10] or 0), tonumber(f[11] or 0)))
  local joined = add_to_backlog(agenda, backlog, id, place(tonumber(f[1]), arrival), f[8], f[7], since)
  if joined ~= tonumber(f[9] or 0) then
    redis.call('HSET', key, 's', 'q', 'j', digits(joined))
  else
    redis.call('HSET', key, 's', 'q')
  end
  if f[3] then redis.call('HSETNX', collapse_set(f[6], agenda.user), f[3], id) end
  if f[4] then redis.call('ZADD', partition .. 'y', f[4], id) end
  return backlog
end

-- promote moves what is due by now into the backlogs, up to a limit, and returns how many it moved.
local function promote(agenda, limit)
  local due = redis.call('ZRANGEBYSCORE', agenda.later, '-inf', digits(now), 'LIMIT', '0', digits(limit))
  for _, id in ipairs(due) do
    redis.call('ZREM', agenda.later, id)
    local f = redis.call('HMGET', partition .. 'n:' .. id, 's', 'w')
    note_later_removal(id, f[1], f[2])
    return_to_backlog(agenda, id)
  end
  return #due
end
