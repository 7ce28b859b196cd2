-- finish ends tasks that were worked, as asynq's done ends one.
--
-- KEYS[1]  active, a list
-- KEYS[2]  leases
-- KEYS[3]  processed today, a counter
-- KEYS[4]  processed, a counter
-- ARGV[1]  prefix of the tasks' keys
-- ARGV[2]  when today's counter ends, seconds
-- ARGV[3]  largest value of the counters
-- ARGV[4…] the tasks
--
-- Result   for each 1, or 0 when it was not active
local found, n = {}, 0
for i = 4, #ARGV do
  local id = ARGV[i]
  -- The oldest stand at the end of the list.
  if redis.call('LREM', KEYS[1], -1, id) == 1 and redis.call('ZREM', KEYS[2], id) == 1 and redis.call('DEL', ARGV[1] .. id) == 1 then
    found[#found + 1] = 1
    n = n + 1
  else
    found[#found + 1] = 0
  end
end
if n > 0 then
  if redis.call('INCRBY', KEYS[3], n) == n then redis.call('EXPIREAT', KEYS[3], ARGV[2]) end
  if tonumber(redis.call('GET', KEYS[4]) or 0) > tonumber(ARGV[3]) - n then
    redis.call('SET', KEYS[4], n)
  else
    redis.call('INCRBY', KEYS[4], n)
  end
end
return found
