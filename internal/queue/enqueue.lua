-- enqueue puts tasks of one asynq queue into it, as asynq's own Enqueue and Schedule do for one. A task that the queue
-- holds already, wherever, is left as it is. One of which only the hash is left, since the list or set in which it stood was
-- lost, is put in anew.
--
-- KEYS[1]  asynq's keys of the queue begin with this
-- ARGV[…]  per task: id, message, the second at which it is due (0: at once)
--
-- Result   how many were put in
local call, ARGV = redis.call, ARGV
local lane = KEYS[1]
local clock = call('TIME')
-- In ns; on this server's clock, so that the list of what is pending goes by it whoever put it there.
local now = clock[1] .. string.format('%06d', clock[2]) .. '000'

-- held tells whether a task that has a hash stands where its state says. A pending one is not looked for in its list, which
-- may be long: the list is taken from its oldest end, and what joined before the oldest was in a list that is gone.
local function held(id, task)
  local f = call('HMGET', task, 'state', 'pending_since')
  local state = f[1]
  if state == 'pending' then
    local oldest = call('LINDEX', lane .. 'pending', -1)
    if not oldest then return false end
    return tonumber(f[2] or 0) >= tonumber(call('HGET', lane .. 't:' .. oldest, 'pending_since') or 0)
  elseif state == 'scheduled' or state == 'retry' then
    return call('ZSCORE', lane .. state, id) ~= false
  elseif state == 'active' then
    return call('ZSCORE', lane .. 'lease', id) ~= false
  end
  return true
end

local pending, scheduled, put = {}, {}, {}
for i = 1, #ARGV, 3 do
  local id, message, due = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local task = lane .. 't:' .. id
  if not put[id] and (call('EXISTS', task) == 0 or not held(id, task)) then
    put[id] = true
    if due == '0' then
      call('HSET', task, 'msg', message, 'state', 'pending', 'pending_since', now)
      pending[#pending + 1] = id
    else
      call('HSET', task, 'msg', message, 'state', 'scheduled')
      scheduled[#scheduled + 1] = due
      scheduled[#scheduled + 1] = id
    end
  end
end
if #pending > 0 then call('LPUSH', lane .. 'pending', unpack(pending)) end
if #scheduled > 0 then call('ZADD', lane .. 'scheduled', unpack(scheduled)) end
return #pending + #scheduled / 2
