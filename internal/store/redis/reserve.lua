-- reserve claims an idempotency key for one notification.
--
-- KEYS[1]  hash of the key: f fingerprint of the body, i id of the notification, p µs until which it is being accepted
-- ARGV[1]  fingerprint
-- ARGV[2]  id for the notification if the key is new
-- ARGV[3]  how long accepting may take, in µs
-- ARGV[4]  life of the key in ms
--
-- Result   {"new", id} accept it under this id, {"done", id} it was accepted before, {"busy", id} it is being accepted,
--          {"other", id} the key belongs to another body
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local known = redis.call('HMGET', KEYS[1], 'f', 'i', 'p')
if known[2] then
  if known[1] ~= ARGV[1] then return { 'other', known[2] } end
  if not known[3] then return { 'done', known[2] } end
  if tonumber(known[3]) > now then return { 'busy', known[2] } end
else
  redis.call('HSET', KEYS[1], 'f', ARGV[1], 'i', ARGV[2])
  known[2] = ARGV[2]
end
redis.call('HSET', KEYS[1], 'p', string.format('%.0f', now + tonumber(ARGV[3])))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return { 'new', known[2] }
