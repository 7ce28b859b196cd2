-- cancel ends a notification that still waits; later ones move up by themselves.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  notification
-- ARGV[2]  retention of ended notifications in ms
-- ARGV[3]  grace of the sweeper in µs
-- ARGV[4]  reason
--
-- Result   1 cancelled, 0 it does not wait, -1 unknown
local id = ARGV[1]
local f = redis.call('HMGET', lane .. 'n:' .. id, 'c', 'u')
if not f[1] then return -1 end
local box = open_box(f[1], f[2])
if not leave(box, id) then return 0 end
local now = now_micros()
finish(id, now, 'C', ARGV[4], ARGV[2])
account(box, now, tonumber(ARGV[3]))
return 1
