-- commit notes that the notifications with idempotency keys of one partition have been accepted. A key that is over
-- stays so: it would be back without an end.
--
-- KEYS     hashes of the keys, see reserve.lua
-- ARGV     for each key when its notification was accepted, in µs ("": not known)
--
-- Result   how many of the keys there still are
local left = 0
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    left = left + 1
    redis.call('HDEL', KEYS[i], 'p')
    if ARGV[i] ~= '' then redis.call('HSET', KEYS[i], 'a', ARGV[i]) end
  end
end
return left
