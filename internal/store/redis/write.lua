-- Writes records of a kind. Unless somebody has to know the version before, one that is the same already
-- stays as it is: nobody has to look at it again. Then it forgets some that were removed long ago. The latest change
-- that was forgotten keeps its place in the changes, with an empty key.
--
--   KEYS[1]  the bodies
--   KEYS[2]  the keys by version
--   KEYS[3]  the removed ones by version
--   KEYS[4]  the keys by alias
--   KEYS[5]  the lines of a log that have no numbers yet
--   ARGV[1]  how long it is known that one was removed, in µs
--   ARGV[2]  how many there may be; 0 for any number
--   ARGV[3]  how many that were removed long ago it forgets
--   ARGV[4]  how many lines are written if all records are
--   ARGV[5]… the lines; then per record: key, body ('' when it is removed), the version that was read ('' for any),
--            the alias that was read, the alias
--   Result   for each record its version ('0' when there never was one), 'changed' when another was read, 'many', or
--            '=' and the key that has the alias
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local long_ago = now - tonumber(ARGV[1])
local last = tonumber(redis.call('ZREVRANGE', KEYS[2], '0', '0', 'WITHSCORES')[2] or 0)
local written = true

local function write(key, body, was, alias_was, alias)
  local before = redis.call('HGET', KEYS[1], key) or ''
  local version = redis.call('ZSCORE', KEYS[2], key) or '0'
  if was == '' and body == before then return version end
  if was ~= '' and tonumber(was) ~= tonumber(version) then
    local removed = redis.call('ZSCORE', KEYS[3], key)
    if was ~= '0' or not removed or tonumber(removed) > long_ago then return 'changed' end
  end
  local owner = alias ~= '' and redis.call('HGET', KEYS[4], alias)
  if owner and owner ~= key then return '=' .. owner end
  local most = tonumber(ARGV[2])
  if most > 0 and before == '' and body ~= '' and redis.call('HLEN', KEYS[1]) >= most then return 'many' end
  last = math.max(now, last + 1)
  local number = string.format('%.0f', last)
  redis.call('ZADD', KEYS[2], number, key)
  if alias_was ~= '' and alias_was ~= alias then redis.call('HDEL', KEYS[4], alias_was) end
  if alias ~= '' then redis.call('HSET', KEYS[4], alias, key) end
  if body == '' then
    redis.call('HDEL', KEYS[1], key)
    redis.call('ZADD', KEYS[3], number, key)
  else
    redis.call('HSET', KEYS[1], key, body)
    redis.call('ZREM', KEYS[3], key)
  end
  return number
end

local results, lines = {}, tonumber(ARGV[4])
for i = 5 + lines, #ARGV, 5 do
  local result = write(unpack(ARGV, i, i + 4))
  written = written and tonumber(result) ~= nil
  results[#results + 1] = result
end
if not written then return results end
for i = 5, 4 + lines do
  redis.call('RPUSH', KEYS[5], time[1] .. string.format('%06d', time[2]) .. ' ' .. ARGV[i])
end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', long_ago, 'LIMIT', 0, ARGV[3])) do
  local number = redis.call('ZSCORE', KEYS[2], key)
  if tonumber(number) > tonumber(redis.call('ZSCORE', KEYS[2], '') or 0) then redis.call('ZADD', KEYS[2], number, '') end
  redis.call('ZREM', KEYS[2], key)
  redis.call('ZREM', KEYS[3], key)
end
return results
