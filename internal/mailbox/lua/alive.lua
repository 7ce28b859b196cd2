-- alive tells whether a task of the lane's asynq queue can still come: it stands where its state says. Its hash alone tells
-- nothing, since a key that was lost (evicted, deleted) takes its tasks' places with it and leaves their hashes.
--
-- A pending one is not looked for in its list, which may be long. The list goes by the moment at which tasks joined it, on
-- this server's clock, and is taken from its oldest end: a task that joined before the oldest has been in a list that is gone.
-- A live worker extends the lease of its active tasks every 10 s to 30 s ahead.
--
-- What comes later is scheduled by a worker's clock. With `by` (in s, on this server's clock) one that is due after it does
-- not count: the clock of the worker that scheduled it was ahead.
local joined_first
local function oldest_joined(tasks)
  if joined_first == nil then
    local oldest = redis.call('LINDEX', tasks .. 'pending', -1)
    -- Without its own hash the oldest tells nothing; it is passed over when it is taken.
    joined_first = oldest and tonumber(redis.call('HGET', tasks .. 't:' .. oldest, 'pending_since') or 0) or math.huge
  end
  return joined_first
end

local function alive(tasks, tick, now, by)
  local task = redis.call('HMGET', tasks .. 't:' .. tick, 'state', 'pending_since')
  local state = task[1]
  if state == 'active' then
    local lease = redis.call('ZSCORE', tasks .. 'lease', tick)
    return lease and tonumber(lease) > now / 1000000 + 15
  elseif state == 'pending' then
    return tonumber(task[2] or 0) >= oldest_joined(tasks)
  end
  if state ~= 'retry' and state ~= 'scheduled' then return false end
  local due = redis.call('ZSCORE', tasks .. state, tick)
  return due and (not by or tonumber(due) <= by)
end
