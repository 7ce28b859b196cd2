-- put accepts notifications of one lane. Each id is accepted once; one that is known already is left as it is.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  grace of the sweeper in µs
-- ARGV[2]  retention of ended notifications in ms
-- ARGV[3…] per notification: id, category, user, priority, send_at in µs (0: at once), expires_at in µs (0: never),
--          collapse key ("": none), payload
--
-- Result   per notification: the µs at which it was accepted, negative when the id was known before, and when it is due
--          (0: at once)
local grace, retention = tonumber(ARGV[1]), ARGV[2]
local now = now_micros()

local function replace_earlier(box, id, collapse_key)
  local earlier = redis.call('HGET', box.collapse, collapse_key)
  if earlier and leave(box, earlier) then finish(earlier, now, 'R', 'collapse_key', retention) end
  redis.call('HSET', box.collapse, collapse_key, id)
end

local function accept(id, box, priority, send_at, expires_at, collapse_key, payload)
  local key = lane .. 'n:' .. id
  local arrival = arrival_at(now)
  local scheduled = send_at > now
  local fields = { 'u', box.user, 'c', box.category, 'p', priority, 'v', digits(arrival), 'b', payload,
    's', scheduled and 't' or 'q' }
  local function set(name, value) fields[#fields + 1] = name; fields[#fields + 1] = value end
  if send_at > 0 then set('t', digits(send_at)) end
  if expires_at > 0 then set('e', digits(expires_at)) end
  if collapse_key ~= '' then
    set('k', collapse_key)
    replace_earlier(box, id, collapse_key)
  end
  redis.call('HSET', key, unpack(fields))
  if expires_at > 0 then redis.call('ZADD', lane .. 'y', digits(expires_at), id) end
  if scheduled then
    redis.call('ZADD', box.later, digits(send_at), id)
    redis.call('ZADD', box.sleepers, digits(send_at), id)
    add_count('scheduled', 1)
  else
    redis.call('ZADD', box.line, place(tonumber(priority), arrival), id)
    redis.call('ZADD', box.ticks, 0, id)
    add_count('waiting', 1)
  end
  add_count('accepted', 1)
  return arrival + YEAR_2020, scheduled and send_at or 0
end

local result = {}
for i = 3, #ARGV, 8 do
  local id, box = ARGV[i], open_box(ARGV[i + 1], ARGV[i + 2])
  local known = redis.call('HGET', lane .. 'n:' .. id, 'v')
  if known then
    result[#result + 1] = -(tonumber(known) + YEAR_2020)
    result[#result + 1] = 0
  else
    local at, due = accept(id, box, ARGV[i + 3], tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6], ARGV[i + 7])
    account(box, now, grace)
    result[#result + 1] = at
    result[#result + 1] = due
  end
end
return result
