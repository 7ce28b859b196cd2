-- view tells where a notification stands in its agenda. It writes nothing.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  notification
-- ARGV[4…] the plan, see read_plan
--
-- Result   {now, 1 when it waits in its backlog, 1 when it is deferred, expected delivery in µs (0: unknown), number of the rule
--          that its backlog waits for (0: none), the line of history of its deferral ("": none)}
local agenda = open_agenda(ARGV[2])
local backlog = backlog_of(agenda, ARGV[1])
local rank = redis.call('ZRANK', backlog.key, ARGV[3])
if not rank then
  return { now, 0, 0, tonumber(redis.call('ZSCORE', agenda.later, ARGV[3]) or 0), 0, '' }
end

-- How many before it are planned one by one; further on the widest rule's pace is taken.
local PLANNED = 1000

local function expected()
  local plan = plan_of(4, backlog.category, agenda.user)
  local planned = {}
  local ahead = { count = 0, newest = function(n) return planned[#planned - n + 1] end }
  local first, rule
  while true do
    local at, why = decide(plan, now, ahead)
    if #planned > 0 and at < planned[#planned] then at = planned[#planned] end
    if #planned == 0 then first, rule = at, why end
    if #planned == rank then return at, rule end
    if #planned == PLANNED then break end
    planned[#planned + 1] = at
    ahead.count = #planned
  end
  local at = planned[PLANNED]
  local slowest = at
  for _, r in ipairs(plan.rules) do slowest = math.max(slowest, at + math.floor((rank - PLANNED) * r.per / r.max)) end
  return slowest, rule
end

local f = redis.call('HMGET', lane .. 'n:' .. ARGV[3], 'j', 'd', 'v', 'i')
local deferred = backlog.next > 0 and was_deferred(backlog, f[1])
local at, rule = now, 0
if not f[4] then at, rule = expected() end
local line = ''
if was_deferred(backlog, f[1]) and not f[2] then line = deferral_of(backlog, tonumber(f[3])) end
return { now, 1, deferred and 1 or 0, at, rule, line }
