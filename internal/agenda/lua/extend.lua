-- extend extends the lease of a delivery whose disposition can't be written to the other store yet.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  notification
-- ARGV[2]  generation that was granted
-- ARGV[3]  lease in µs
--
-- Result   1 extended; 0 another generation is in flight
local state, generation = unpack(redis.call('HMGET', KEYS[1] .. 'n:' .. ARGV[1], F.state, F.generation))
if state ~= S.sending or generation ~= ARGV[2] then return 0 end
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
redis.call('ZADD', KEYS[1] .. 'e', 'XX', string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
return 1
