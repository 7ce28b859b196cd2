-- The functions that write a wake-up in the way asynq keeps a task. They are put before the scripts that change an
-- agenda, so that both change in one step. The id of a wake-up's task is the user's: each user has at most one, and
-- asynq's tools show who waits. asynq 0.26 keeps these keys, which share the hash tag of the partition:
--   t:<task>   hash: msg the message, state, pending_since in ns
--   pending    list; tasks are taken from its right end
--   active     list of active tasks, and lease, a sorted set: task → the second at which its lease ends
--   scheduled  sorted set: task → the second at which it is due
--   processed and processed:<day>, counters
-- `digits`, `now`, the moment of the script in µs, and TELL are declared before these functions. TELL is true where
-- processes that have nothing to do are told that a list of pending tasks is no longer empty, see doorbell.go.

local tasks = 'asynq:' .. string.match(KEYS[1], '{.-}') .. ':'
local queue_name = string.match(KEYS[1], '{(.-)}')

-- A live worker asks for the wake-ups that it holds within seconds. If the sweeper fails too, asynq's own recovery is
-- the last resort.
local ACTIVE_SECONDS = 30

-- field returns a length-delimited field of a protobuf message; its length is below 2^14.
local function field(tag, text)
  local n = #text
  if n < 128 then return string.char(tag, n) .. text end
  return string.char(tag, n % 128 + 128, math.floor(n / 128)) .. text
end

local TYPE = field(10, 'pacer:wakeup')

-- What every message ends in: queue, retry (the largest number: asynq must not archive what is only throttled) and timeout
-- (300 s).
local SETTINGS = field(34, queue_name) .. '\40\255\255\255\255\7\64\172\2'

-- message returns a wake-up's message. asynq's proto/asynq.proto numbers its fields; type and id come first.
local function message(user) return TYPE .. field(26, user) .. SETTINGS end

local function is_wakeup(text) return string.find(text, TYPE, 1, true) == 1 end

local function task_key(user) return tasks .. 't:' .. user end

-- push_pending appends tasks to the pending ones. It returns true when there were none.
local function push_pending(users)
  if #users == 0 then return false end
  local since = digits(now) .. '000'
  for _, user in ipairs(users) do
    redis.call('HSET', task_key(user), 'msg', message(user), 'state', 'pending', 'pending_since', since)
  end
  local pending = redis.call('LPUSH', tasks .. 'pending', unpack(users))
  -- Whoever may not publish pushes all the same: then processes that have nothing to do find it a little later.
  if TELL and pending == #users then redis.pcall('PUBLISH', 'asynq:pacer:pending', '') end
  return pending == #users
end

-- forward_second returns the second for which to schedule a wake-up that is due at a moment. asynq's times are whole
-- seconds, and forwarding and noticing a task take time. A wake-up that comes early is held.
local function forward_second(at, lead)
  return math.floor((at - lead) / 1000000)
end

local function schedule(user, second)
  redis.call('HSET', task_key(user), 'msg', message(user), 'state', 'scheduled')
  redis.call('ZADD', tasks .. 'scheduled', digits(second), user)
end

-- The state of a task whose hash is lost: it may be anywhere.
local LOST = 'lost'

-- remove_task takes a task out of its list or set, and leaves its hash. `state` is the state in that hash, or LOST. A
-- pending task stays in its list, which may be too long to search: it comes in its turn.
local function remove_task(user, state)
  if state == 'scheduled' or state == 'retry' then
    redis.call('ZREM', tasks .. state, user)
  elseif state == 'active' then
    redis.call('LREM', tasks .. 'active', '1', user)
    redis.call('ZREM', tasks .. 'lease', user)
  elseif state == LOST then
    remove_task(user, 'active')
    remove_task(user, 'scheduled')
    remove_task(user, 'retry')
  elseif state and state ~= 'pending' then -- archived or completed by asynq's tools
    redis.call('ZREM', tasks .. state, user)
  end
end

-- pop_pending pops up to n pending tasks, oldest first, and returns their ids. Some may have been deleted, or come twice;
-- see message_of.
local function pop_pending(n) return redis.call('RPOP', tasks .. 'pending', digits(n)) or {} end

-- message_of returns the message of a task that was popped; nil for one that was deleted, and for a copy: a task may be in
-- the list twice, because it was pushed again when nobody could tell that it was there already.
local function message_of(id)
  local f = redis.call('HMGET', task_key(id), 'msg', 'state')
  if f[1] and f[2] == 'pending' then return f[1] end
  if not f[1] then redis.call('DEL', task_key(id)) end -- what the forwarder wrote of a task that was deleted before
end

-- make_active marks tasks as active.
local function make_active(ids)
  if #ids == 0 then return end
  local leases = {}
  local until_second = digits(math.floor(now / 1000000) + ACTIVE_SECONDS)
  for _, id in ipairs(ids) do
    redis.call('HSET', task_key(id), 'state', 'active')
    leases[#leases + 1] = until_second
    leases[#leases + 1] = id
  end
  redis.call('LPUSH', tasks .. 'active', unpack(ids))
  redis.call('ZADD', tasks .. 'lease', unpack(leases))
end

-- acknowledge deletes tasks that are used up, and counts them as asynq does: in total, and for the day, in a counter
-- that expires at the second `day_ends`. `active` lists those of them that were active before this script.
local function acknowledge(users, active, day, day_ends)
  local keys = {}
  for i, user in ipairs(users) do keys[i] = task_key(user) end
  redis.call('DEL', unpack(keys))
  for _, user in ipairs(active) do redis.call('LREM', tasks .. 'active', '1', user) end
  if #active > 0 then redis.call('ZREM', tasks .. 'lease', unpack(active)) end
  local today = tasks .. 'processed:' .. day
  if redis.call('INCRBY', today, digits(#users)) == #users then redis.call('EXPIREAT', today, day_ends) end
  redis.call('INCRBY', tasks .. 'processed', digits(#users))
end

-- oldest_pending returns when the oldest pending task was pushed, in ns; math.huge when none is pending. The list is in
-- that order, so a pending task that was pushed earlier was in a list that is lost.
local oldest
local function oldest_pending()
  if oldest == nil then
    local first = redis.call('LINDEX', tasks .. 'pending', '-1')
    oldest = first and tonumber(redis.call('HGET', task_key(first), 'pending_since') or 0) or math.huge
  end
  return oldest
end

-- find_task reports whether a task is where its state says, and returns the state. The list or set may be lost although
-- the hash is not. The list of pending tasks may be long, so nobody searches it.
local function find_task(user)
  local f = redis.call('HMGET', task_key(user), 'state', 'pending_since', 'msg')
  local state = f[1]
  if not f[3] then return false, state end -- deleted, and brought back in part when its time came
  if state == 'pending' then return tonumber(f[2] or 0) >= oldest_pending(), state end
  if state == 'scheduled' or state == 'retry' then return redis.call('ZSCORE', tasks .. state, user) ~= false, state end
  if state == 'active' then return redis.call('ZSCORE', tasks .. 'lease', user) ~= false, state end
  return false, state
end

-- remove_unneeded_task deletes a task, unless it is pending or active: then the worker that gets it finds that nothing
-- waits, and acknowledges it. It returns true when it has deleted the task.
local function remove_unneeded_task(user)
  local stands, state = find_task(user)
  if stands and (state == 'pending' or state == 'active') then return false end
  remove_task(user, state)
  redis.call('DEL', task_key(user))
  return true
end
