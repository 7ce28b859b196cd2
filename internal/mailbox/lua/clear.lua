-- clear forgets the windows of a mailbox and, when asked, those of its user's cap; what waits may then go at once.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  nonce of this call
-- ARGV[4]  1: forget the windows too, 0: only let the line ask again
-- ARGV[5]  grace of the sweeper in µs
--
-- Result   the tick to be enqueued, or ""
local box = open_box(ARGV[1], ARGV[2])
if ARGV[4] == '1' then
  redis.call('DEL', lane .. 'l:' .. box.name, lane .. 'f:' .. box.name, lane .. 'b:' .. box.name, lane .. 'u:' .. box.user)
end
if redis.call('EXISTS', box.line) == 0 then return '' end
local tick = '~' .. ARGV[3]
redis.call('ZADD', box.ticks, 0, tick)
account(box, now_micros(), tonumber(ARGV[5]))
return tick
