-- hurry has those notifications come back at once that wait because their channel's credentials were refused, since these
-- have been replaced. The agendas do not know channels: what waits for another channel comes back too, and waits again.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  how many notifications it looks at
-- ARGV[2]  how many of the first user's were looked at before, and are not due yet
-- ARGV[3]  0: it only says which these are, so that another store can allow it first
-- ARGV[…]  users
--
-- Result   {how many of the users are done, how many of the next one's were looked at and are not due yet, the
--          notifications}
local left, at, moves = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local found = {}

local function held_for_credentials(key)
  local state, reason = unpack(redis.call('HMGET', key, F.state, F.reason))
  return state == S.retrying and reason and
    (reason == 'throttled: channel_paused' or string.sub(reason, 1, 20) == 'credentials_refused:')
end

-- hurry looks at what is not due yet: a worker may take away what is. It returns how many it looked at, and how many of
-- these are due now.
local function hurry(user)
  local agenda = open_agenda(user)
  local ids = redis.call('ZRANGEBYSCORE', agenda.later, '(' .. digits(now), '+inf', 'LIMIT', digits(at), digits(left))
  local before = #found
  for _, id in ipairs(ids) do
    local key = partition .. 'n:' .. id
    if held_for_credentials(key) then
      found[#found + 1] = id
      if moves then
        redis.call('ZADD', agenda.later, digits(now), id)
        redis.call('HSET', key, F.retry_due, digits(now))
      end
    end
  end
  local moved = moves and #found - before or 0
  if moved > 0 then ensure_wakeup(agenda, now) end
  return #ids, moved
end

local done = 0
for i = 4, #ARGV do
  if left <= 0 then break end
  local looked, moved = hurry(ARGV[i])
  local more = looked == left
  left, at = left - math.max(looked, 1), more and at + looked - moved or 0
  if more then break end
  done = done + 1
end
write_changes()
return { done, at, found }
