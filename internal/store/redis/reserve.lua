-- reserve claims idempotency keys of one partition, each for one notification, or tells who has them.
--
-- KEYS     hashes of the keys: f fingerprint of the body, i id of the notification, p µs until which it is being
--          accepted, a µs at which it was accepted
-- ARGV[1]  how long accepting may take, in µs
-- ARGV     then for each key: fingerprint, id for the notification if the key is new, life of the key in ms (0: tell who
--          has it, and change nothing)
--
-- Result   for each key three fields: "new" and the id under which to accept it, "done" and the id that was accepted
--          before, "busy" and the id that is being accepted, or "other" and the id of another body that has the key;
--          and when that was accepted in µs ("": not yet, or not known)
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local accepting_until = string.format('%.0f', now + tonumber(ARGV[1]))

local function reserve(key, fingerprint, id, life)
  local known = redis.call('HMGET', key, 'f', 'i', 'p', 'a')
  if known[2] then
    if known[1] ~= fingerprint then return 'other', known[2] end
    if not known[3] then return 'done', known[2], known[4] end
    if tonumber(known[3]) > now then return 'busy', known[2] end
    id = known[2]
  end
  if life == '0' then return 'new', id end
  if not known[2] then
    redis.call('HSET', key, 'f', fingerprint, 'i', id)
  end
  redis.call('HSET', key, 'p', accepting_until)
  redis.call('PEXPIRE', key, life)
  return 'new', id
end

local reply = {}
for i = 1, #KEYS do
  local claim, id, accepted = reserve(KEYS[i], ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1])
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = claim, id, accepted or ''
end
return reply
