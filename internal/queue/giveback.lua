-- giveback puts tasks that are at work back to where they were, as asynq's requeue does with one.
--
-- KEYS[1]  asynq's keys of the queue begin with this
-- ARGV[…]  the tasks
--
-- Result   how many
local lane, n = KEYS[1], 0
for _, id in ipairs(ARGV) do
  if redis.call('LREM', lane .. 'active', -1, id) == 1 then
    redis.call('ZREM', lane .. 'lease', id)
    redis.call('RPUSH', lane .. 'pending', id)
    redis.call('HSET', lane .. 't:' .. id, 'state', 'pending')
    n = n + 1
  end
end
return n
