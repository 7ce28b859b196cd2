-- view tells where a notification stands in its mailbox. It writes nothing.
--
-- KEYS[1]  the lane's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  notification
-- ARGV[4…] the plan, see read_plan
--
-- Result   {now, 1 when it is in line, 1 when it is deferred, expected delivery in µs (0: unknown), number of the rule
--          that keeps the line waiting (0: none)}
local box = open_box(ARGV[1], ARGV[2])
local plan = plan_of(4, box.name, box.user)
local now = now_micros()

local rank = redis.call('ZRANK', box.line, ARGV[3])
if not rank then
  local due = redis.call('ZSCORE', box.later, ARGV[3])
  return { now, 0, 0, tonumber(due or 0), 0 }
end
local taken = slots_taken(box)
if rank < taken then
  local slot = redis.call('ZRANGEBYSCORE', box.ticks, '(0', '+inf', 'WITHSCORES', 'LIMIT', rank, 1)[2]
  local _, why = decide(plan, now, nobody)
  return { now, 1, 1, tonumber(slot), why }
end
local ahead = { count = taken, newest = function(n) return nth_newest(box.ticks, n) end }
local at, why = decide(plan, now, ahead)
return { now, 1, 0, at, why }
