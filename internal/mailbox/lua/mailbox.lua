-- The mailboxes' functions, put (after the limiter's) before every script of this package. A mailbox is what waits for
-- one user's category. Nothing here runs by itself.
--
-- KEYS[1] of every script is the lane's prefix, such as "pacer:{push-3}:". All other keys are built from it, so that
-- they share its hash tag and with it a slot. Per lane:
--   c  hash   counts: the gauges waiting, deferred (capped of them for the user's cap), scheduled, retrying (held of them
--             for their provider, not after a failure); the totals; and two that stand for several, so
--             that the common path writes one: j (put into line: accepted and waiting up), w (run at once: attempts up,
--             waiting down; x, of earlier versions: pulls up too). Pulls are counted by the queue's fetch.lua
--   a          the arrival given last
--   e  zset   in flight: notification → end of its lease
--   y  zset   waiting with an expiry: notification → when it expires
--   m  zset   mailboxes that hold something → when the sweeper has to look whether they still move
--   d  hash   mailbox → how many of it are deferred, if any
--   g  hash   mailbox → how many of it are deferred for the user's cap, if any
--   o  zset   mailboxes with deferred ones → arrival of the oldest waiting
--   v  hash   user → how many mailboxes with deferred ones
--   elsewhere  hash  category → how many were accepted by processes without metrics, until one with metrics counts them
--   sweep  hash   last: when the lane was swept last; truce: when the latest truce began, before: the one before it
-- and in a guarded store, where the record is elsewhere and Redis may lose everything:
--   z        hash    notification → its end (letter, µs, reason), until the record knows of it
--   epoch    string  how often the lane was built, and the server's identity when it was; without it the lane has lost its
--                    state, and holds
--   built    string  the history of the server's data (its replication id) on which it was built: on another the lane holds
--   moved    string  the record is being moved elsewhere: nobody who keeps it here may take anything in or give it out
--   rebuild  string  token of the rebuild in progress
-- Per mailbox, named category:user (a category holds no colon):
--   w:  zset  the line: notification → place, by priority and arrival
--   t:  zset  ticks of the line: tick → its slot, 0 while it is in the queue
--   r:  zset  later: notification → not before (send_at or a retry)
--   s:  zset  ticks of what is later: tick → when
--   x:  hash  collapse key → the waiting notification that has it
--   h:  string  arrival of the newest with a collapse key; the key's length, the key and the mailbox stand in the name
-- and the limiter's. Per notification:
--   n:  hash  u user, c category, p priority, v arrival, l arrival of what it replaced and whose place it took (absent: v),
--             s state, g generation, o grants returned untried,
--             f failures, x crashes, d deferrals, e expires, k collapse key, b payload, y reason, m admitted at, t not before, z ended,
--             h history, w held for its provider, l arrival by which it stands in
--             line instead of v, and of the tick of the same name: q nonce of its last question, r what it was granted
--             (absent: itself)
--
-- A state is one letter: q in line, t scheduled, r retrying, s sending; D delivered, F failed, E expired, C cancelled,
-- R replaced. "deferred" is no state: it is every notification in line whose place has a slot.

local lane = KEYS[1]
local counts = lane .. 'c'

-- 2^51: a place in line is (priority-1)·2^51 + arrival, exact in a double while arrivals, in µs since the year 2020,
-- stay below it (until 2091).
local BAND = 2251799813685248
local YEAR_2020 = 1577836800000000

-- A tick this much (µs) after a slot still covers it.
local TOLERANCE = 2000

local function open_box(category, user)
  local name = category .. ':' .. user
  return {
    name = name, category = category, user = user,
    line = lane .. 'w:' .. name, ticks = lane .. 't:' .. name,
    later = lane .. 'r:' .. name, sleepers = lane .. 's:' .. name, collapse = lane .. 'x:' .. name,
  }
end

local function box_of_name(name)
  local colon = string.find(name, ':', 1, true)
  return open_box(string.sub(name, 1, colon - 1), string.sub(name, colon + 1))
end

-- plan_of reads the plan of a mailbox from ARGV, from index i on.
local STATE_LETTERS = { [ROLLING] = 'l:', [FIXED_WINDOW] = 'f:', [TOKEN_BUCKET] = 'b:' }
local function plan_of(i, name, user)
  local plan = read_plan(i, nil, lane .. 'u:' .. user)
  plan.state = lane .. STATE_LETTERS[plan.algorithm] .. name
  return plan
end

local function add_count(field, n)
  redis.call('HINCRBY', counts, field, n)
end

local function place(priority, arrival)
  return digits((priority - 1) * BAND + arrival)
end

local function remember(id, now, kind, detail)
  local key = lane .. 'n:' .. id
  local history = redis.call('HGET', key, 'h') or ''
  if #history > 4096 then return end
  redis.call('HSET', key, 'h', history .. digits(now) .. ' ' .. kind .. ' ' .. detail .. '\n')
end

-- finish ends a notification that stands in no line any more.
local function finish(id, now, state, reason, retention)
  local key = lane .. 'n:' .. id
  redis.call('HSET', key, 's', state, 'y', reason, 'z', digits(now))
  redis.call('PEXPIRE', key, retention)
  add_count(state, 1)
  if GUARDED then redis.call('HSET', lane .. 'z', id, state .. digits(now) .. ' ' .. reason) end
end

-- An older one with a collapse key can come back for as long as it is in flight, or on its way here: an hour (in ms) is
-- long for that.
local COLLAPSE_LIFE = 3600000

local function newest_key(name, collapse_key)
  return lane .. 'h:' .. #collapse_key .. ':' .. collapse_key .. ':' .. name
end

-- superseded tells whether a newer one with the same collapse key has been accepted: it waits, or went within the hour, by
-- whatever end. Then this one must not wait again.
local function superseded(box, id)
  local fields = redis.call('HMGET', lane .. 'n:' .. id, 'k', 'v')
  if not fields[1] then return false end
  local arrival = tonumber(fields[2])
  local newest = redis.call('GET', newest_key(box.name, fields[1]))
  if newest and tonumber(newest) > arrival then return true end
  local waiting = redis.call('HGET', box.collapse, fields[1])
  return waiting and waiting ~= id and tonumber(redis.call('HGET', lane .. 'n:' .. waiting, 'v') or 0) > arrival
end

local function release_collapse(box, id, collapse_key)
  if collapse_key and collapse_key ~= '' and redis.call('HGET', box.collapse, collapse_key) == id then
    redis.call('HDEL', box.collapse, collapse_key)
  end
end

-- leave_later takes one of what is later out of its count.
local function leave_later(id)
  local key = lane .. 'n:' .. id
  local fields = redis.call('HMGET', key, 's', 'w')
  add_count(fields[1] == 't' and 'scheduled' or 'retrying', -1)
  if fields[2] then
    add_count('held', -1)
    redis.call('HDEL', key, 'w')
  end
end

-- leave takes a waiting notification out of the line or of what is later; false when it stands in neither.
local function leave(box, id)
  local key = lane .. 'n:' .. id
  if redis.call('ZREM', box.line, id) == 1 then
    add_count('waiting', -1)
  elseif redis.call('ZREM', box.later, id) == 1 then
    leave_later(id)
  else
    return false
  end
  local fields = redis.call('HMGET', key, 'k', 'e')
  release_collapse(box, id, fields[1])
  if fields[2] then redis.call('ZREM', lane .. 'y', id) end
  return true
end

-- join puts a notification into the line, at the place that its priority and arrival give it, or the arrival of what it
-- replaced.
local function join(box, id)
  local key = lane .. 'n:' .. id
  local fields = redis.call('HMGET', key, 'p', 'v', 'k', 'e', 'l')
  redis.call('HSET', key, 's', 'q')
  redis.call('ZADD', box.line, place(tonumber(fields[1]), tonumber(fields[5] or fields[2])), id)
  if fields[3] then redis.call('HSETNX', box.collapse, fields[3], id) end
  if fields[4] then redis.call('ZADD', lane .. 'y', fields[4], id) end
  add_count('waiting', 1)
end

-- promote moves what is due from later into the line, up to a limit, and tells how many.
local function promote(box, now, limit)
  local due = redis.call('ZRANGEBYSCORE', box.later, '-inf', digits(now), 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    redis.call('ZREM', box.later, id)
    leave_later(id)
    join(box, id)
  end
  return #due
end

local function slots_taken(box)
  return redis.call('ZCOUNT', box.ticks, '(0', '+inf')
end

-- oldest_arrival of a line that holds something: that of the head, unless priorities are mixed.
local function oldest_arrival(box)
  local first = tonumber(redis.call('ZRANGE', box.line, 0, 0, 'WITHSCORES')[2])
  local last = tonumber(redis.call('ZREVRANGE', box.line, 0, 0, 'WITHSCORES')[2])
  local low, high = math.floor(first / BAND), math.floor(last / BAND)
  local oldest = first - low * BAND
  for band = low + 1, high do
    local from = redis.call('ZRANGEBYSCORE', box.line, digits(band * BAND), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local score = tonumber(from[2])
    oldest = math.min(oldest, score - math.floor(score / BAND) * BAND)
  end
  return oldest
end

-- account_capped puts what is deferred of a mailbox down to the rule that its head waits for: the user's cap, or one of the
-- category. box.capped says which, when that was decided just now.
local function account_capped(box, deferred)
  local before = tonumber(redis.call('HGET', lane .. 'g', box.name) or 0)
  local capped = box.capped
  if capped == nil then capped = before > 0 end
  local after = capped and deferred or 0
  if after == before then return end
  add_count('capped', after - before)
  if after > 0 then redis.call('HSET', lane .. 'g', box.name, after) else redis.call('HDEL', lane .. 'g', box.name) end
end

local function account_deferred(box, waiting)
  local before = tonumber(redis.call('HGET', lane .. 'd', box.name) or 0)
  local after = 0
  if waiting > 0 then after = math.min(waiting, slots_taken(box)) end
  if after > 0 then redis.call('ZADD', lane .. 'o', digits(oldest_arrival(box)), box.name) end
  if before > 0 or after > 0 then account_capped(box, after) end
  if after == before then return end
  add_count('deferred', after - before)
  if after > 0 then
    redis.call('HSET', lane .. 'd', box.name, after)
    if before == 0 then redis.call('HINCRBY', lane .. 'v', box.user, 1) end
  else
    redis.call('HDEL', lane .. 'd', box.name)
    redis.call('ZREM', lane .. 'o', box.name)
    if redis.call('HINCRBY', lane .. 'v', box.user, -1) <= 0 then redis.call('HDEL', lane .. 'v', box.user) end
  end
end

-- account brings the lane's counts and its index of mailboxes up to date. Every script that changed a mailbox ends with
-- it. The sweeper looks at the mailbox `grace` µs after the next thing that should happen in it. Ticks of a line that is
-- empty are forgotten: when they come, they find nothing.
local function account(box, now, grace)
  local waiting, later = redis.call('ZCARD', box.line), redis.call('ZCARD', box.later)
  account_deferred(box, waiting)
  if waiting == 0 and later == 0 then
    redis.call('DEL', box.ticks, box.sleepers)
    redis.call('ZREM', lane .. 'm', box.name)
    return
  end
  local expected
  if waiting == 0 then
    redis.call('DEL', box.ticks)
  else
    expected = tonumber(redis.call('ZRANGE', box.ticks, 0, 0, 'WITHSCORES')[2] or 0)
  end
  if later == 0 then
    redis.call('DEL', box.sleepers)
  else
    local due = tonumber(redis.call('ZRANGE', box.later, 0, 0, 'WITHSCORES')[2])
    if not expected or due < expected then expected = due end
  end
  redis.call('ZADD', lane .. 'm', digits(math.max(now, expected) + grace), box.name)
end
