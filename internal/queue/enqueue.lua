-- enqueue puts tasks of one asynq queue into it, as asynq's own Enqueue and Schedule do for one. A task that the queue
-- holds already, wherever, is left as it is.
--
-- KEYS[1]  asynq's keys of the queue begin with this
-- ARGV[1]  ns since the epoch
-- ARGV[2…] per task: id, message, the second at which it is due (0: at once)
--
-- Result   how many were put in
local call, ARGV = redis.call, ARGV
local lane, now = KEYS[1], ARGV[1]
local pending, scheduled = {}, {}
for i = 2, #ARGV, 3 do
  local id, message, due = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local task = lane .. 't:' .. id
  if call('EXISTS', task) == 0 then
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
