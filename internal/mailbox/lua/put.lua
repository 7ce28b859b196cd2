-- put accepts notifications of one lane. Each id is accepted once; one that is known already is left as it is.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  grace of the sweeper in µs
-- ARGV[2]  retention of ended notifications in ms
-- ARGV[3]  "" in a store that is not guarded; "epoch" when the lane must have its state; else the token of the rebuild
--          that the lane must be in
-- ARGV[4]  1: accepted by a process without metrics of its own, for another to count
-- ARGV[5…] per notification: id, category, user, priority, not before in µs (0: at once), expires_at in µs (0: never),
--          collapse key ("": none), payload, arrival in µs since the year 2020 (0: now), state while it is not due (t, r)
--
-- Result   per notification: the µs at which it was accepted, negative when the id was known before, and when it is due
--          (0: at once)
local call, ARGV = redis.call, ARGV
local grace, retention = tonumber(ARGV[1]), ARGV[2]
if ARGV[3] == 'epoch' then
  if call('EXISTS', lane .. 'epoch') == 0 then return redis.error_reply('NOEPOCH the lane has lost its state') end
elseif ARGV[3] ~= '' and call('GET', lane .. 'rebuild') ~= ARGV[3] then
  return redis.error_reply('NOEPOCH the lane is in another rebuild')
end
local now = now_micros()
local last = tonumber(call('GET', lane .. 'a') or 0)
local joined, index = 0, {}
local names, elsewhere = {}, {}
for i = 5, #ARGV, 10 do names[#names + 1] = ARGV[i + 1] .. ':' .. ARGV[i + 2] end
local deferred = call('HMGET', lane .. 'd', unpack(names))

-- replace_earlier ends what waits with the same collapse key, and gives the arrival whose place the newer one takes.
local function replace_earlier(box, id, arrival, collapse_key)
  local earlier = call('HGET', box.collapse, collapse_key)
  call('HSET', box.collapse, collapse_key, id)
  call('SET', newest_key(box.name, collapse_key), digits(arrival), 'PX', COLLAPSE_LIFE)
  if not earlier then return arrival end
  local f = call('HMGET', lane .. 'n:' .. earlier, 's', 'l', 'v')
  if not leave(box, earlier) then return arrival end
  finish(earlier, now, 'R', 'collapse_key', retention)
  if f[1] == 't' then return arrival end
  return tonumber(f[2] or f[3])
end

local function write(id, category, user, priority, arrival, state, send_at, expires_at, collapse_key, payload)
  local key = lane .. 'n:' .. id
  call('HSET', key, 'u', user, 'c', category, 'p', priority, 'v', digits(arrival), 'b', payload, 's', state)
  if send_at ~= '0' then call('HSET', key, 't', send_at) end
  if expires_at ~= '0' then call('HSET', key, 'e', expires_at) end
  if collapse_key ~= '' then call('HSET', key, 'k', collapse_key) end
end

-- await remembers what has to happen while it waits, and gives the arrival by which it has its place.
local function await(box, id, arrival, expires_at, collapse_key)
  if expires_at ~= '0' then call('ZADD', lane .. 'y', expires_at, id) end
  if collapse_key == '' then return arrival end
  local from = replace_earlier(box, id, arrival, collapse_key)
  if from ~= arrival then call('HSET', lane .. 'n:' .. id, 'l', digits(from)) end
  return from
end

local function accept(n, id, category, user, priority, send_at, expires_at, collapse_key, payload, given, state)
  local arrival = tonumber(given)
  if arrival == 0 then arrival = math.max(now - YEAR_2020, last + 1) end
  last = math.max(last, arrival)
  if ARGV[4] == '1' then elsewhere[category] = (elsewhere[category] or 0) + 1 end
  local later = tonumber(send_at) > now
  write(id, category, user, priority, arrival, later and state or 'q', send_at, expires_at, collapse_key, payload)
  if collapse_key ~= '' and superseded(open_box(category, user), id) then
    -- It comes late: a newer one has been here, and may have gone.
    add_count('accepted', 1)
    finish(id, now, 'R', 'collapse_key', retention)
    return arrival, 0
  end
  if later then
    local box = open_box(category, user)
    await(box, id, arrival, expires_at, collapse_key)
    call('ZADD', box.later, send_at, id)
    call('ZADD', box.sleepers, send_at, id)
    add_count(state == 't' and 'scheduled' or 'retrying', 1)
    add_count('accepted', 1)
    account(box, now, grace)
    return arrival, tonumber(send_at)
  end
  local name, from = names[n], arrival
  if expires_at ~= '0' or collapse_key ~= '' then from = await(open_box(category, user), id, arrival, expires_at, collapse_key) end
  call('ZADD', lane .. 'w:' .. name, place(tonumber(priority), from), id)
  call('ZADD', lane .. 't:' .. name, 0, id)
  index[#index + 1] = digits(now + grace)
  index[#index + 1] = name
  joined = joined + 1
  -- Without deferred ones before, there are none now: the new tick has no slot.
  if deferred[n] then
    local box = open_box(category, user)
    account_deferred(box, call('ZCARD', box.line))
  end
  return arrival, 0
end

local result = {}
for i = 5, #ARGV, 10 do
  local known = call('HGET', lane .. 'n:' .. ARGV[i], 'v')
  if known then
    result[#result + 1] = -(tonumber(known) + YEAR_2020)
    result[#result + 1] = 0
  else
    local arrival, due = accept((i + 5) / 10, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7],
      ARGV[i + 8], ARGV[i + 9])
    result[#result + 1] = arrival + YEAR_2020
    result[#result + 1] = due
  end
end
call('SET', lane .. 'a', digits(last))
for category, n in pairs(elsewhere) do call('HINCRBY', lane .. 'elsewhere', category, n) end
if joined > 0 then
  call('ZADD', lane .. 'm', 'LT', unpack(index))
  add_count('j', joined)
end
return result
