-- archive archives an active task that is not a wake-up, as asynq's own archive does, for people to look at.
--
-- KEYS[1]  the prefix of asynq's keys of the queue
-- ARGV[1]  the task's id
-- ARGV[2]  its message, with the reason
-- ARGV[3]  the time, in seconds since the epoch
-- ARGV[4]  how many archived tasks are kept
--
-- Result   1, or 0 when the task was not active
local partition, id = KEYS[1], ARGV[1]
if redis.call('LREM', partition .. 'active', '-1', id) == 0 then return 0 end
redis.call('ZREM', partition .. 'lease', id)
redis.call('HSET', partition .. 't:' .. id, 'msg', ARGV[2], 'state', 'archived')
redis.call('ZADD', partition .. 'archived', ARGV[3], id)
for _, old in ipairs(redis.call('ZRANGE', partition .. 'archived', '0', -ARGV[4] - 1)) do
  redis.call('ZREM', partition .. 'archived', old)
  redis.call('DEL', partition .. 't:' .. old)
end
return 1
