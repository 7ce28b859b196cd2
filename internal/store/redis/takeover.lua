-- takeover gives the claim of an idempotency key to another notification, unless it has changed.
--
-- KEYS[1]  the claim
-- ARGV     what it was seen to hold, what it is to hold, its life in ms
--
-- Result   1 if the claim holds that now, 0 if it has changed
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
