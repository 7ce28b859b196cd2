-- fetch takes tasks of a queue, as asynq's dequeue takes one: oldest first, each with a lease.
--
-- KEYS[1]  pending, a list
-- KEYS[2]  paused: while it exists nothing is taken
-- KEYS[3]  active, a list
-- KEYS[4]  leases
-- ARGV[1]  end of the leases, seconds
-- ARGV[2]  prefix of the tasks' keys
-- ARGV[3]  how many at most
--
-- Result   their messages
local messages = {}
if redis.call('EXISTS', KEYS[2]) == 1 then return messages end
for _ = 1, tonumber(ARGV[3]) do
  local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[3])
  if not id then break end
  local key = ARGV[2] .. id
  redis.call('HSET', key, 'state', 'active')
  redis.call('HDEL', key, 'pending_since')
  redis.call('ZADD', KEYS[4], ARGV[1], id)
  local message = redis.call('HGET', key, 'msg')
  if message then messages[#messages + 1] = message end
end
return messages
