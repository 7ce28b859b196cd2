-- enqueue puts tasks of one asynq queue into it, as asynq's own Enqueue and Schedule do for one. A task that the queue
-- holds already, wherever, is left as it is.
--
-- KEYS[1]  asynq's keys of the queue begin with this
-- ARGV[1]  ns since the epoch
-- ARGV[2…] per task: id, message, the second at which it is due (0: at once)
--
-- Result   how many were put in
local lane, now, added = KEYS[1], ARGV[1], 0
for i = 2, #ARGV, 3 do
  local id, message, due = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local task = lane .. 't:' .. id
  if redis.call('EXISTS', task) == 0 then
    if due == '0' then
      redis.call('HSET', task, 'msg', message, 'state', 'pending', 'pending_since', now)
      redis.call('LPUSH', lane .. 'pending', id)
    else
      redis.call('HSET', task, 'msg', message, 'state', 'scheduled')
      redis.call('ZADD', lane .. 'scheduled', due, id)
    end
    added = added + 1
  end
end
return added
