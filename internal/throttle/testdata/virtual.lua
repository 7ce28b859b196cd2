-- A clock that tests set, put before a script on a server whose own clock they cannot set. It stands in for TIME and
-- for the expiry of keys, to the rounding that Redis has.
--
-- virtual:now  string  the time in µs
-- virtual:ttl  hash    key → the last ms in which it is there
local server = redis
local redis = {}

function redis.call(name, ...)
  if name ~= 'TIME' and name ~= 'PEXPIRE' then return server.call(name, ...) end
  local now = tonumber(server.call('GET', 'virtual:now'))
  if name == 'TIME' then
    return { string.format('%.0f', math.floor(now / 1000000)), string.format('%.0f', now % 1000000) }
  end
  local key, ms = ...
  server.call('HSET', 'virtual:ttl', key, string.format('%.0f', math.floor(now / 1000) + tonumber(ms)))
  return 1
end

for _, key in ipairs(KEYS) do
  local last = tonumber(server.call('HGET', 'virtual:ttl', key) or nil)
  if last and math.floor(tonumber(server.call('GET', 'virtual:now')) / 1000) > last then
    server.call('DEL', key)
    server.call('HDEL', 'virtual:ttl', key)
  end
end

