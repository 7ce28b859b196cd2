-- end writes the end of a delivery that keeps its throttle slot: the commonest settlement, in the fewest steps. It stands
-- without the mailboxes' functions, since loading them would cost as much as it does itself.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  notification
-- ARGV[2]  generation that was granted
-- ARGV[3]  D delivered, F failed
-- ARGV[4]  reason
-- ARGV[5]  retention in ms
--
-- Result   1 written, now or before; 0 the generation in flight is another
local lane, id, state = KEYS[1], ARGV[1], ARGV[3]
local key = lane .. 'n:' .. id
local f = redis.call('HMGET', key, 's', 'g')
if f[2] ~= ARGV[2] then return 0 end
if f[1] ~= 's' then return f[1] == state and 1 or 0 end
local now = redis.call('TIME')
redis.call('ZREM', lane .. 'e', id)
redis.call('HSET', key, 's', state, 'y', ARGV[4], 'z', now[1] .. string.format('%06d', now[2]))
redis.call('PEXPIRE', key, ARGV[5])
redis.call('HINCRBY', lane .. 'c', state, 1)
return 1
