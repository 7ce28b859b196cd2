-- The functions that keep a user's wake-up early enough, and those that write what a script has changed. They stand
-- after notification.lua.

-- For write_changes: the users whose wake-ups are pushed to the queue, each once; and the moments of wake-ups, as
-- moment, user, and so on.
local to_push, wakeup_times = {}, {}

-- note_wakeup_time notes the moment of a user's wake-up.
local function note_wakeup_time(agenda, at)
  agenda.wakeup_at = at
  wakeup_times[#wakeup_times + 1] = digits(at)
  wakeup_times[#wakeup_times + 1] = agenda.user
end

-- place_wakeup pushes or schedules a wake-up that is not in the queue, for a moment.
local function place_wakeup(agenda, at)
  note_wakeup_time(agenda, at)
  if at > now + HOLD then return schedule(agenda.user, forward_second(at, LEAD)) end
  if agenda.pushed then return end
  agenda.pushed = true
  to_push[#to_push + 1] = agenda.user
end

-- remove_wakeup takes a wake-up out of the queue, and from the process that holds it.
local function remove_wakeup(agenda, state)
  remove_task(agenda.user, state)
  if agenda.generation then
    agenda.generation = nil
    redis.call('HDEL', agenda.key, '')
  end
end

-- ensure_wakeup makes sure that the user has a wake-up at or before a moment. It replaces a later one; a process that
-- holds that one then has an old generation, and is granted nothing. The sweeper finds wake-ups that were lost. What can
-- go now is looked at again.
local function ensure_wakeup(agenda, at)
  if at <= now then
    at = now
    for _, backlog in pairs(agenda.backlogs) do set_seen(agenda, backlog, false) end
  end
  if agenda.wakeup_at == nil then
    agenda.wakeup_at = tonumber(redis.call('ZSCORE', partition .. 'wakeups', agenda.user)) or false
  end
  if agenda.wakeup_at and agenda.wakeup_at <= at then return end
  local state = agenda.wakeup_at and redis.call('HGET', task_key(agenda.user), 'state')
  if agenda.wakeup_at and not state then state = LOST end
  if state == 'pending' then return note_wakeup_time(agenda, at) end
  remove_wakeup(agenda, state)
  place_wakeup(agenda, at)
end

-- wake_for_expiry wakes a user whose backlog of a category a closed interval blocks, when the first of it expires before
-- that ends for the user: it may go earlier, see open. Whatever makes another the first calls this.
local function wake_for_expiry(agenda, category)
  local backlog = agenda.backlogs[category]
  if not backlog or not is_quiet(backlog) then return end
  local first = redis.call('ZRANGE', backlog.key, '0', '0')[1]
  local expires = first and redis.call('HGET', partition .. 'n:' .. first, F.expires)
  if expires and tonumber(expires) <= backlog.next then ensure_wakeup(agenda, now) end
end

-- save_agenda writes the backlogs of an agenda that have changed, and removes those that are empty.
local function save_agenda(agenda)
  local fields = {}
  for backlog in pairs(agenda.changed) do
    -- The last one that was deferred may be gone.
    if backlog.left and backlog.next > 0 and size_of(backlog) <= backlog.fresh then set_ready(agenda, backlog) end
    if backlog.left and size_of(backlog) == 0 then
      redis.call('HDEL', agenda.key, backlog.category)
      if agenda.backlogs[backlog.category] then
        agenda.backlogs[backlog.category] = nil
        agenda.size = agenda.size - 1
      end
    else
      local held = backlog.paused and 2 or backlog.capped and 1 or backlog.named and 3 or 0
      fields[#fields + 1] = backlog.category
      fields[#fields + 1] = string.format('%d %d %d %d %d %d %d %d %d', backlog.next, backlog.rule,
        held + (backlog.seen and 4 or 0) + (backlog.bundled and 8 or 0), backlog.since, backlog.fresh, backlog.blocks, backlog.most,
        backlog.ready, backlog.counted)
    end
  end
  for i = 1, #fields, 1000 do redis.call('HSET', agenda.key, unpack(fields, i, math.min(i + 999, #fields))) end
  agenda.changed = {}
end

-- cover_rest makes sure of a wake-up now, after something was taken out of a backlog that waits for a named cap: what
-- comes first now may be on a channel that the cap does not count.
local function cover_rest(agenda)
  if agenda.uncovered and agenda.size > 0 then ensure_wakeup(agenda, now) end
end

-- remove_if_empty removes the wake-up of a user for whom nothing waits any more, unless a process holds it, or it was
-- pushed.
local function remove_if_empty(agenda)
  if agenda.size > 0 or agenda.generation or agenda.pushed or agenda.has_later then return end
  if remove_unneeded_task(agenda.user) then
    redis.call('ZREM', partition .. 'wakeups', agenda.user)
    unmark_personal(agenda)
  end
end

-- write_changes writes all changes that this script has noted and not yet written. It returns true when it pushed
-- wake-ups, and none were pending.
local function write_changes()
  for _, agenda in pairs(agendas) do save_agenda(agenda) end
  local were_none = push_pending(to_push)
  if #wakeup_times > 0 then redis.call('ZADD', partition .. 'wakeups', unpack(wakeup_times)) end
  to_push, wakeup_times = {}, {}
  for name, n in pairs(counted) do
    if n ~= 0 then redis.call('HINCRBY', partition .. 'c', name, digits(n)) end
  end
  counted = {}
  local history = partition .. 'history:' .. digits(math.floor(now / 3600000000))
  for field, n in pairs(happened) do
    if redis.call('HINCRBY', history, field, digits(n)) == n then redis.call('EXPIRE', history, '2678400') end
  end
  happened = {}
  return were_none
end
