-- The functions that read what waits for a user, a part at a time. They stand before look.lua and readon.lua.

-- How many bytes of payloads one script reads to learn the channels of notifications. A named cap takes those whose
-- channel is not known to be on any channel.
local payload_bytes = 1048576

-- channel_at returns the channel of a notification; '' when it is not known.
local function channel_at(id)
  if payload_bytes <= 0 then return '' end
  local payload = redis.call('HGET', partition .. 'n:' .. id, 'b') or ''
  payload_bytes = payload_bytes - #payload
  return channel_of(payload) or ''
end

-- put_standing appends a notification that is in a backlog: its id, its place, since when max_defer counts, when it
-- expires (0: never), and its channel, when that matters, else ''.
local function put_standing(list, id, at_place, channels)
  local f, n = redis.call('HMGET', partition .. 'n:' .. id, 'A', 't', 'n', 'e'), #list
  local since = tonumber(f[1] or 0)
  if f[2] or f[3] then since = math.max(since, tonumber(f[2] or 0), tonumber(f[3] or 0)) end
  list[n + 1], list[n + 2], list[n + 3], list[n + 4] = id, at_place, since, tonumber(f[4] or 0)
  list[n + 5] = channels and channel_at(id) or ''
end

-- put_due appends a notification that is due later: as put_standing does, then its category, when it is due, and its
-- state. Of one that was forgotten the category is ''.
local function put_due(list, id, due, channels)
  local f = redis.call('HMGET', partition .. 'n:' .. id, 'c', 'p', 'l', 'v', 's', 'w')
  put_standing(list, id, f[1] and tonumber(place(tonumber(f[2]), tonumber(f[3] or f[4]))) or 0, channels)
  local n = #list
  list[n + 1], list[n + 2], list[n + 3] = f[1] or '', due, f[6] and 'w' or f[5] or ''
end

-- put_backlog appends what stands in a backlog from a place on, without some at the beginning.
local function put_backlog(list, key, from, skip, most, channels)
  local found = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', skip, most)
  for n = 1, #found, 2 do put_standing(list, found[n], tonumber(found[n + 1]), channels) end
  return list
end

-- put_later appends what is due from a moment on, without some at the beginning.
local function put_later(list, agenda, from, skip, most, channels)
  local found = redis.call('ZRANGEBYSCORE', agenda.later, from, '+inf', 'WITHSCORES', 'LIMIT', skip, most)
  for n = 1, #found, 2 do put_due(list, found[n], tonumber(found[n + 1]), channels) end
  return list
end
