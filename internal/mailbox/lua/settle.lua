-- settle writes what became of a delivery. A settlement of another generation than the one in flight changes nothing.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  notification
-- ARGV[4]  generation that was granted
-- ARGV[5]  the tick that ran it
-- ARGV[6]  D delivered, F failed, E expired, C cancelled, R replaced, r retry, q back into the line, x forgotten: it
--          has ended elsewhere
-- ARGV[7]  reason, for people and the notification's view
-- ARGV[8]  wait before a retry in µs
-- ARGV[9]  1: give the throttle slot back
-- ARGV[10] 1: the attempt counts as a failure; 2: it was none, a retry that waits for its provider; 3: a retry that comes
--          back behind what waits by then
-- ARGV[11] retention of ended notifications in ms
-- ARGV[12] grace of the sweeper in µs
-- ARGV[13…] the plan, see read_plan
--
-- Result   {"stale"}, {"ended"}, {"retry", now, due} or {"back"}; the tick serves a retry, and belongs to the line again
--          after "back"
local box = open_box(ARGV[1], ARGV[2])
local id, generation, tick, outcome, reason = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local key = lane .. 'n:' .. id
local state = redis.call('HMGET', key, 's', 'g', 'v', 'm', 'e')
local now = now_micros()
if state[2] ~= generation then return { 'stale' } end
if state[1] == 'q' and outcome ~= 'q' and leave(box, id) then
  -- The lease has ended, but nobody else has been granted it: the late result is still the latest.
  redis.call('HINCRBY', key, 'x', -1)
elseif state[1] ~= 's' then
  -- Settled before, and the answer was lost.
  if state[1] == 'r' then return { 'retry', now, tonumber(redis.call('ZSCORE', box.later, id) or now) } end
  return { state[1] == 'q' and 'stale' or 'ended' }
end

redis.call('ZREM', lane .. 'e', id)
if ARGV[9] == '1' then
  local plan = plan_of(13, box.name, box.user)
  refund(plan, tonumber(state[4]), id .. '#' .. generation)
end
if ARGV[10] == '1' then redis.call('HINCRBY', key, 'f', 1) end

local due = now + tonumber(ARGV[8])
local expires = tonumber(state[5] or nil)
if outcome == 'r' and expires and due >= expires then outcome, reason = 'E', 'expires_at' end

if (outcome == 'r' or outcome == 'q') and superseded(box, id) then
  if outcome == 'q' or ARGV[10] == '2' then
    redis.call('HINCRBY', key, 'o', 1)
    add_count('attempts', -1)
  end
  outcome, reason = 'R', 'collapse_key'
end

if outcome == 'r' then
  remember(id, now, 'retrying', digits(due) .. ' ' .. reason)
  redis.call('HSET', key, 's', 'r', 'y', reason)
  redis.call('ZADD', box.later, digits(due), id)
  redis.call('ZADD', box.sleepers, digits(due), tick)
  if expires then redis.call('ZADD', lane .. 'y', digits(expires), id) end
  local collapse_key = redis.call('HGET', key, 'k')
  if collapse_key then redis.call('HSETNX', box.collapse, collapse_key, id) end
  add_count('retrying', 1)
  if ARGV[10] == '3' then redis.call('HSET', key, 'l', digits(due - YEAR_2020)) end
  if ARGV[10] == '2' then
    redis.call('HSET', key, 'w', '1')
    redis.call('HINCRBY', key, 'o', 1)
    add_count('attempts', -1)
    add_count('held', 1)
  end
  account(box, now, tonumber(ARGV[12]))
  return { 'retry', now, due }
end
if outcome == 'q' then
  redis.call('HINCRBY', key, 'o', 1)
  add_count('attempts', -1)
  join(box, id)
  redis.call('ZADD', box.ticks, 0, tick)
  account(box, now, tonumber(ARGV[12]))
  return { 'back' }
end
if outcome == 'x' then
  redis.call('DEL', key)
  add_count('attempts', -1)
else
  finish(id, now, outcome, reason, ARGV[11])
end
if state[1] == 'q' then account(box, now, tonumber(ARGV[12])) end
return { 'ended' }
