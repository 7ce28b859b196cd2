-- giveback puts tasks that were taken and not begun back to where they were, as asynq's requeue does with one.
--
-- KEYS[1]  active, a list
-- KEYS[2]  leases
-- KEYS[3]  pending, a list
-- ARGV[1]  prefix of the tasks' keys
-- ARGV[2…] the tasks, the oldest last
--
-- Result   how many
local n = 0
for i = 2, #ARGV do
  local id = ARGV[i]
  if redis.call('LREM', KEYS[1], -1, id) == 1 then
    redis.call('ZREM', KEYS[2], id)
    redis.call('RPUSH', KEYS[3], id)
    redis.call('HSET', ARGV[1] .. id, 'state', 'pending')
    n = n + 1
  end
end
return n
