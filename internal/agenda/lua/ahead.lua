-- The functions that read what waits for a user, a part at a time. They stand before look.lua and readon.lua.

-- How many bytes of payloads one script reads to learn the channels of notifications. A named cap takes those whose
-- channel is not known to be on any channel.
local payload_bytes = 1048576

-- channel_at returns the channel of a notification and, after a space, its group, if it has one; '' when the channel is
-- not known.
local function channel_at(id)
  if payload_bytes <= 0 then return '' end
  local payload, group = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.payload, F.group))
  payload = payload or ''
  payload_bytes = payload_bytes - #payload
  return (channel_of(payload) or '') .. (group and ' ' .. group or '')
end

-- put_standing appends a notification that is in a backlog: its id, its place, since when max_defer counts, when it
-- expires (0: never), and its channel and group, when these matter, else
-- ''.
local function put_standing(list, id, at_place, channels)
  local accepted, not_before, backed_off, expires = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.accepted,
    F.not_before, F.backed_off, F.expires))
  local since, n = tonumber(accepted or 0), #list
  if not_before or backed_off then since = math.max(since, tonumber(not_before or 0), tonumber(backed_off or 0)) end
  list[n + 1], list[n + 2], list[n + 3], list[n + 4] = id, at_place, since, tonumber(expires or 0)
  list[n + 5] = channels and channel_at(id) or ''
end

-- put_due appends a notification that is due later: as put_standing does, then its category, when it is due, and its
-- state. Of one that was forgotten the category is ''.
local function put_due(list, id, due, channels)
  local category, priority, follows, arrival, state, held = unpack(redis.call('HMGET', partition .. 'n:' .. id,
    F.category, F.priority, F.follows, F.arrival, F.state, F.held))
  local at_place = category and tonumber(place(tonumber(priority), tonumber(follows or arrival))) or 0
  put_standing(list, id, at_place, channels)
  local n = #list
  list[n + 1], list[n + 2], list[n + 3] = category or '', due, held and F.held or state or ''
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
