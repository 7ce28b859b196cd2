-- The functions that read what waits for a user, a part at a time. They stand before promise.lua and readon.lua.

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

-- put_places appends the places in a backlog between two, the first of which belongs to it, without some at the
-- beginning; and behind each its channel, when that matters, else ''.
local function put_places(list, key, from, until_, skip, most, channels)
  local found = redis.call('ZRANGEBYSCORE', key, from, until_, 'WITHSCORES', 'LIMIT', skip, most)
  for n = 1, #found, 2 do
    list[#list + 1] = tonumber(found[n + 1])
    list[#list + 1] = channels and channel_at(found[n]) or ''
  end
  return list
end

-- put_later appends what is due from a moment on, without some at the beginning: of each the id, its category, when it is
-- due, its place, and its channel, when that matters, else ''.
local function put_later(list, agenda, from, skip, most, channels)
  local found = redis.call('ZRANGEBYSCORE', agenda.later, from, '+inf', 'WITHSCORES', 'LIMIT', skip, most)
  for n = 1, #found, 2 do
    local id, i = found[n], #list
    local f = redis.call('HMGET', partition .. 'n:' .. id, 'c', 'p', 'l', 'v')
    list[i + 1], list[i + 2], list[i + 3] = id, f[1] or '', tonumber(found[n + 1])
    list[i + 4] = f[1] and tonumber(place(tonumber(f[2]), tonumber(f[3] or f[4]))) or 0
    list[i + 5] = channels and channel_at(id) or ''
  end
  return list
end
