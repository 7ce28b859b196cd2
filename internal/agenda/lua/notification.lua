-- The functions that work on single notifications: their history, their ends, their collapse keys, and their moves
-- between a backlog and what is later. They stand after agenda.lua.

local function add_to_history(id, at, kind, detail)
  local key = partition .. 'n:' .. id
  local history = redis.call('HGET', key, F.history) or ''
  if #history > 4096 then return end
  redis.call('HSET', key, F.history, history .. digits(at) .. ' ' .. kind .. ' ' .. detail .. '\n')
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
    quiet_hours = 'expired quiet_hours', overflow = 'expired overflow',
  }

  function finish(id, category, state, reason, retention, detail)
    local key = partition .. 'n:' .. id
    redis.call('HSET', key, F.state, state, F.reason, reason, F.ended, digits(now), F.detail, detail or '')
    redis.call('PEXPIRE', key, retention)
    count(state, 1)
    if ENDS[reason] and state ~= S.replaced then count(ENDS[reason], 1) end
    note_history(state, category)
    events.tell_end(id, category, state, reason)
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
  local collapse, arrival = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.collapse, F.arrival))
  if not collapse then return false end
  arrival = tonumber(arrival)
  local newest = redis.call('GET', newest_key(category, user, collapse))
  if newest and tonumber(newest) > arrival then return true end
  local waiting = redis.call('HGET', collapse_set(category, user), collapse)
  if not waiting or waiting == id then return false end
  return tonumber(redis.call('HGET', partition .. 'n:' .. waiting, F.arrival) or 0) > arrival
end

local function release_collapse(category, user, id, collapse_key)
  if not collapse_key or collapse_key == '' then return end
  local set = collapse_set(category, user)
  if redis.call('HGET', set, collapse_key) == id then redis.call('HDEL', set, collapse_key) end
end

-- note_later_removal updates the counts after a notification was taken out of the set of what is later.
local function note_later_removal(id, state, held)
  count(state == S.scheduled and 'scheduled' or 'retrying', -1)
  if held then
    count('held', -1)
    redis.call('HDEL', partition .. 'n:' .. id, F.held)
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
  local state, set = unpack(redis.call('HMGET', key, F.state, F.retry_set))
  set = tonumber(set or back and now + back or 0)
  if state ~= S.retrying or set <= now then return due end
  due = math.max(now, now + due - set)
  redis.call('ZADD', agenda.later, digits(due), id)
  redis.call('HSET', key, F.retry_due, digits(due), F.retry_set, digits(now))
  return due
end

-- remove_waiting takes a notification out of its backlog, or out of what is later, and returns its category, whether it
-- carries a digest that may have reached somebody, and when it expires. It returns false when the notification is in neither. Its caller has
-- to call cover_rest, unless it looks at all that waits.
local function remove_waiting(agenda, id)
  local key = partition .. 'n:' .. id
  local category, collapse, expires, joined, state, held, accepted, deferrals, follows, not_before, backed_off,
    frozen = unpack(redis.call('HMGET', key, F.category, F.collapse, F.expires, F.joined, F.state, F.held, F.accepted,
      F.deferrals, F.follows, F.not_before, F.backed_off, F.frozen))
  local backlog = agenda.backlogs[category]
  if backlog and redis.call('ZREM', backlog.key, id) == 1 then
    if follows or not_before or backed_off then redis.call('ZREM', strays_of(backlog), id) end
    events.tell_late(agenda, backlog, id, joined)
    if was_deferred(backlog, joined) and not deferrals then
      local history = (redis.call('HGET', key, F.history) or '') .. deferral_of(backlog, tonumber(accepted))
      redis.call('HSET', key, F.deferrals, '1', F.history, history)
    end
    note_removal(agenda, backlog, joined)
    agenda.uncovered = agenda.uncovered or backlog.named or waits_for_company(backlog)
  elseif redis.call('ZREM', agenda.later, id) == 1 then
    note_later_removal(id, state, held)
    earliest_later(agenda)
  else
    return false
  end
  release_collapse(category, agenda.user, id, collapse)
  if expires then redis.call('ZREM', partition .. 'y', id) end
  return category, frozen, expires
end

-- return_to_backlog puts a known notification into its backlog, at the place of its priority and arrival. One that
-- replaced another has the arrival of the other. It returns the backlog.
local function return_to_backlog(agenda, id)
  local key = partition .. 'n:' .. id
  local priority, arrival, collapse, expires, follows, category, deferrals, bypasses, before, not_before, backed_off,
    accepted = unpack(redis.call('HMGET', key, F.priority, F.arrival, F.collapse, F.expires, F.follows, F.category,
      F.deferrals, F.bypasses, F.joined, F.not_before, F.backed_off, F.accepted))
  local backlog, at_place = backlog_of(agenda, category), place(tonumber(priority), tonumber(follows or arrival))
  local since = stray_since(tonumber(accepted), follows, math.max(tonumber(not_before or 0), tonumber(backed_off or 0)))
  local joined = add_to_backlog(agenda, backlog, id, at_place, bypasses, deferrals, since)
  if joined ~= tonumber(before or 0) then
    redis.call('HSET', key, F.state, S.queued, F.joined, digits(joined))
  else
    redis.call('HSET', key, F.state, S.queued)
  end
  if collapse then redis.call('HSETNX', collapse_set(category, agenda.user), collapse, id) end
  if expires then redis.call('ZADD', partition .. 'y', expires, id) end
  return backlog
end

-- promote moves what is due by now into the backlogs, up to a limit, and returns how many it moved.
local function promote(agenda, limit)
  local due = redis.call('ZRANGEBYSCORE', agenda.later, '-inf', digits(now), 'LIMIT', '0', digits(limit))
  for _, id in ipairs(due) do
    redis.call('ZREM', agenda.later, id)
    note_later_removal(id, unpack(redis.call('HMGET', partition .. 'n:' .. id, F.state, F.held)))
    return_to_backlog(agenda, id)
  end
  return #due
end
